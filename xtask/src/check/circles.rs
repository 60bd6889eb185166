//! Circles in a directed graph: its strongly connected components of more than one node.

use std::collections::{BTreeMap, BTreeSet};

/// To which nodes arrows lead from a node.
pub(super) type Graph<N> = BTreeMap<N, BTreeSet<N>>;

/// The nodes of each circle in order; the largest circle first.
pub(super) fn circles<N: Ord + Clone>(graph: &Graph<N>) -> Vec<Vec<N>> {
    let mut search = Search {
        graph,
        entered: BTreeMap::new(),
        stack: Vec::new(),
        on_stack: BTreeSet::new(),
        found: Vec::new(),
    };
    for node in graph.keys() {
        if !search.entered.contains_key(node) {
            search.enter(node);
        }
    }
    let mut found = search.found;
    found.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    found
}

/// Tarjan's algorithm.
struct Search<'g, N> {
    graph: &'g Graph<N>,
    /// When each node was entered.
    entered: BTreeMap<&'g N, usize>,
    stack: Vec<&'g N>,
    on_stack: BTreeSet<&'g N>,
    found: Vec<Vec<N>>,
}

impl<'g, N: Ord + Clone> Search<'g, N> {
    /// Returns the earliest entered node on the stack that can be reached from this one.
    fn enter(&mut self, node: &'g N) -> usize {
        let entered = self.entered.len();
        self.entered.insert(node, entered);
        self.stack.push(node);
        self.on_stack.insert(node);
        let mut earliest = entered;
        for next in self.graph.get(node).into_iter().flatten() {
            match self.entered.get(next) {
                None => earliest = earliest.min(self.enter(next)),
                Some(at) if self.on_stack.contains(next) => earliest = earliest.min(*at),
                Some(_) => {}
            }
        }
        if earliest == entered {
            let start = self.stack.iter().rposition(|n| *n == node).unwrap_or(0);
            let circle = self.stack.split_off(start);
            for node in &circle {
                self.on_stack.remove(node);
            }
            if circle.len() > 1 {
                let mut circle: Vec<_> = circle.into_iter().cloned().collect();
                circle.sort();
                self.found.push(circle);
            }
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(&'static str, &'static str)]) -> Graph<&'static str> {
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph.entry(*from).or_default().insert(*to);
        }
        graph
    }

    #[test]
    fn nodes_that_reach_each_other_are_a_circle() {
        let graph =
            graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("e", "f")]);
        assert_eq!(circles(&graph), [vec!["a", "b", "c"], vec!["d", "e"]]);
    }

    #[test]
    fn arrows_in_one_direction_are_no_circle() {
        assert!(circles(&graph(&[("a", "b"), ("a", "c"), ("b", "c"), ("a", "a")])).is_empty());
    }
}

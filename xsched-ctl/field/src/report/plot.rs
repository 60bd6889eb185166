//! A plot as SVG: points over time, one colour a mode.

use std::fmt::Write as _;

use super::{Line, Plot};
use crate::options::Mode;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 220.0;
/// Room for the numbers at the axes.
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 10.0;

/// The colour of a mode, which the page's style also uses.
pub(super) fn colour(mode: Mode) -> &'static str {
    match mode {
        Mode::Native => "#c2410c",
        Mode::Scheduled => "#1d4ed8",
        Mode::Compat => "#15803d",
    }
}

/// The plot; its upper end is the largest value.
pub(super) fn svg(plot: &Plot) -> String {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0_f64, f64::max);
    let (end, top) = (most(|point| point.0), most(|point| point.1));
    if end <= 0.0 || top <= 0.0 {
        return String::new();
    }
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT);
    let y = |value: f64| TOP + (1.0 - value / top) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for part in [0.0, 0.5, 1.0] {
        let (value, height) = (top * part, y(top * part));
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{height:.1}\" y2=\"{height:.1}\" stroke=\"#d4d4d4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            height + 4.0,
            super::html::number(value),
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\">0 s</text><text x=\"{WIDTH}\" y=\"{:.1}\" text-anchor=\"end\">{} s</text>",
        HEIGHT - 6.0,
        HEIGHT - 6.0,
        super::html::number(end)
    );
    for Line { mode, points } in &plot.lines {
        for (at, value) in points {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2\" fill=\"{}\"/>",
                x(*at),
                y(*value),
                colour(*mode)
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_inside_of_the_plot() {
        let points = vec![(0.0, 0.0), (2.0, 4.0), (1.0, 8.0)];
        let lines =
            vec![Line { mode: Mode::Native, points: points.clone() }, Line { mode: Mode::Compat, points }];
        let svg = svg(&Plot { title: String::new(), unit: "ms".to_owned(), lines });
        assert_eq!(svg.matches("<circle").count(), 6);
        for circle in svg.split("<circle cx=\"").skip(1) {
            let (x, rest) = circle.split_once("\" cy=\"").unwrap();
            let (y, _) = rest.split_once('"').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((LEFT..=WIDTH).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y), "{x}, {y}");
        }
    }

    #[test]
    fn a_plot_without_extent_is_left_out() {
        let lines = vec![Line { mode: Mode::Native, points: vec![(0.0, 0.0)] }];
        assert_eq!(svg(&Plot { title: String::new(), unit: String::new(), lines }), "");
    }
}

use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use super::*;

fn launched(number: u64) -> Launched {
    Launched {
        admitted: Nanos(number),
        returned: Nanos(number + 1),
        class: DurationClass(number),
        origin: Origin(number as u8),
        judgement: Judgement::from_bits(number),
        on_device: number.is_multiple_of(2),
    }
}

fn open() -> Journal {
    let journal = Journal::default();
    assert!(journal.open(7, Nanos(3), Standing::Beside));
    journal
}

fn enter(journal: &Journal) -> Option<Ticket> {
    journal.enter(journal.look()?)
}

#[test]
fn launches_are_collected_in_the_order_in_which_they_entered_once_they_returned() {
    let journal = open();
    assert_eq!((journal.claim(), journal.marker_due()), (7, Nanos(3)));
    let [first, second, third] = [0; 3].map(|_| enter(&journal).unwrap());
    journal.leave(second, &launched(2));
    assert_eq!((journal.collect(), journal.pending()), (None, 3), "the first may take long to return");
    journal.leave(first, &launched(1));
    assert_eq!(
        [journal.collect(), journal.collect(), journal.collect()],
        [1, 2, 0].map(|number| { Some(launched(number)).filter(|_| number > 0) })
    );
    assert_eq!(journal.pending(), 1);
    journal.leave(third, &launched(3));
    assert_eq!((journal.collect(), journal.pending()), (Some(launched(3)), 0));
}

#[test]
fn a_journal_that_is_closed_or_full_takes_none() {
    let journal = Journal::default();
    assert!(journal.look().is_none() && journal.collect().is_none());
    assert!(journal.open(1, Nanos(0), Standing::Beside));
    let tickets: Vec<_> = (0..ENTRIES).map(|_| enter(&journal).unwrap()).collect();
    assert!(journal.look().is_none(), "the first would be overwritten");
    tickets.iter().zip(0..).for_each(|(ticket, number)| journal.leave(*ticket, &launched(number)));
    assert!(journal.look().is_none(), "and it was not read");
    assert_eq!(journal.collect(), Some(launched(0)));
    let seen = journal.look().unwrap();
    journal.close();
    assert!(journal.enter(seen).is_none() && journal.look().is_none());
    assert!(journal.open(1, Nanos(0), Standing::Beside));
    assert!(journal.enter(seen).is_none(), "other things may hold by now");
    assert!(enter(&journal).is_some());
}

#[test]
fn launches_of_a_queue_that_is_gone_are_not_the_next_ones() {
    let journal = open();
    let [late, returned] = [0; 2].map(|_| enter(&journal).unwrap());
    journal.leave(returned, &launched(1));
    journal.assign();
    assert!(!journal.open(8, Nanos(0), Standing::Beside));
    assert!(journal.look().is_none(), "a launch on a stream that was destroyed may still write");
    journal.leave(late, &launched(2));
    assert!(!journal.has_news(), "it is no other queue's");
    assert!(journal.open(8, Nanos(0), Standing::Beside));
    assert_eq!((journal.collect(), journal.pending()), (None, 0));
    assert!(enter(&journal).is_some());
}

/// No launch enters a journal of which a thread knows that it is closed, and none is lost or seen twice.
#[test]
fn threads_that_launch_while_the_journal_is_opened_and_closed_are_all_known() {
    const THREADS: u64 = 2;
    const EACH: u64 = 500;
    let (journal, ended) = (open(), AtomicUsize::new(0));
    let mut seen = vec![0_u32; (THREADS * EACH) as usize];
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (journal, ended) = (&journal, &ended);
            scope.spawn(move || {
                for number in thread * EACH..(thread + 1) * EACH {
                    let ticket = loop {
                        if let Some(ticket) = enter(journal) {
                            break ticket;
                        }
                        thread::yield_now();
                    };
                    let same = launched(number);
                    journal.leave(ticket, &Launched { admitted: Nanos(number), ..same });
                }
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        let collect = |seen: &mut Vec<u32>| {
            while let Some(one) = journal.collect() {
                assert_eq!(one, launched(one.admitted.0));
                seen[one.admitted.0 as usize] += 1;
            }
        };
        while ended.load(Ordering::SeqCst) < THREADS as usize {
            collect(&mut seen);
            journal.close();
            let entered = journal.word.load(Ordering::SeqCst);
            thread::yield_now();
            collect(&mut seen);
            assert_eq!(journal.word.load(Ordering::SeqCst), entered, "a launch has entered a closed journal");
            assert!(journal.open(1, Nanos(0), Standing::Beside));
            thread::sleep(Duration::from_micros(20));
        }
        collect(&mut seen);
    });
    assert!(seen.iter().all(|count| *count == 1));
}

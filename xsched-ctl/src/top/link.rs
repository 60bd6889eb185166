//! The connection to the controller: asks for the list again and again, passes requests on, and connects again where it was lost.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, UnboundedSender};
use tokio::time::{MissedTickBehavior, interval};
use xsched_control_api::{
    answer::{Answer, List},
    client::{AskError, Controller},
    request::Request,
};

/// How soon it connects again.
const AGAIN: Duration = Duration::from_secs(1);

/// What comes from the controller.
#[derive(Debug)]
pub(super) enum News {
    /// The processes.
    List(List),
    /// A request was granted.
    Answered(Request, Answer),
    /// A request was refused.
    Refused(AskError),
    /// There is no controller, or it does not answer.
    Lost(AskError),
}

/// Runs until the other side of one of the channels is gone.
pub(super) async fn keep(mut orders: Receiver<Request>, news: UnboundedSender<News>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut controller = None;
    loop {
        let order = tokio::select! {
            order = orders.recv() => match order {
                Some(order) => Some(order),
                None => return,
            },
            _ = ticks.tick() => None,
        };
        let is_changed = order.is_some();
        let come = ask(&mut controller, order).await;
        match come {
            News::Lost(_) => ticks.reset_after(AGAIN.min(every)),
            // What it has changed is seen at once.
            _ if is_changed => ticks.reset_immediately(),
            _ => {}
        }
        if news.send(come).is_err() {
            return;
        }
    }
}

/// Asks for the list, or for what is ordered.
async fn ask(controller: &mut Option<Controller>, order: Option<Request>) -> News {
    let connected = match controller.take() {
        Some(controller) => Ok(controller),
        None => Controller::connect().await,
    };
    let mut connected = match connected {
        Ok(connected) => connected,
        Err(error) => return News::Lost(error),
    };
    let request = order.clone().unwrap_or(Request::List {});
    let come = match (connected.ask(&request).await, order) {
        (Ok(Answer::List(list)), _) => News::List(list),
        (Ok(answer), Some(order)) => News::Answered(order, answer),
        (Ok(answer), None) => News::Lost(AskError::Strange(format!("{answer:?}"))),
        (Err(error @ AskError::Refused { .. }), Some(_)) => News::Refused(error),
        (Err(error), _) => News::Lost(error),
    };
    if !matches!(come, News::Lost(_)) {
        *controller = Some(connected);
    }
    come
}

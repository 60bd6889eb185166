//! A timer for the scheduler's deadlines, which are fractions of a millisecond. tokio's timers are grains of a millisecond and end
//! one or two late: time slices got longer by that, and shares moved late. A timerfd is as exact as the kernel's timers, and
//! no slack is added to it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};
use xsched_control_api::readiness;
use xsched_symbols::own_ns;

/// One deadline at a time, on the arbiter's clock.
#[derive(Debug)]
pub struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    /// What it is set to, if that has not been waited for to its end.
    set_ns: Option<u64>,
}

impl Timer {
    /// A timer without a deadline. It needs a runtime of tokio.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self { descriptor: readiness::watch(descriptor)?, set_ns: None })
    }

    /// Waits until this time; forever if there is none. May be dropped and called again with any time.
    pub async fn reach(&mut self, time_ns: Option<u64>) -> io::Result<()> {
        let Some(time_ns) = time_ns else { return std::future::pending().await };
        if self.set_ns != Some(time_ns) {
            self.set_ns = None;
            set(self.descriptor.get_ref(), time_ns)?;
            self.set_ns = Some(time_ns);
        }
        // Setting it takes back an expiry that was not read: one of an earlier deadline does not end this wait.
        let read = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut [0_u8; 8])?);
        self.descriptor.async_io(Interest::READABLE, read).await?;
        self.set_ns = None;
        Ok(())
    }
}

fn set(timer: &OwnedFd, time_ns: u64) -> io::Result<()> {
    // Zero would stop it.
    let time_ns = own_ns(time_ns).max(1);
    let once = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec {
            tv_sec: (time_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (time_ns % 1_000_000_000).cast_signed(),
        },
    };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};
    use xsched_symbols::now_ns;

    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;
    const SHORT: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_deadline_is_reached_and_not_before_its_time() {
        let mut timer = Timer::new().unwrap();
        let due_ns = now_ns() + 300_000;
        timer.reach(Some(due_ns)).await.unwrap();
        assert!(now_ns() >= due_ns);
        timer.reach(Some(0)).await.unwrap();
        assert!(timeout(SHORT, timer.reach(None)).await.is_err());
    }

    #[tokio::test]
    async fn an_earlier_deadline_replaces_one_that_is_waited_for() {
        let mut timer = Timer::new().unwrap();
        assert!(timeout(SHORT, timer.reach(Some(now_ns() + HOUR_NS))).await.is_err());
        timer.reach(Some(now_ns() + 100_000)).await.unwrap();
    }

    #[tokio::test]
    async fn one_that_passed_unheard_does_not_end_the_wait_for_a_later_one() {
        let mut timer = Timer::new().unwrap();
        let passes_ns = now_ns() + 2_000_000;
        let _ = timeout(Duration::ZERO, timer.reach(Some(passes_ns))).await;
        sleep(SHORT).await;
        assert!(timeout(SHORT, timer.reach(Some(now_ns() + HOUR_NS))).await.is_err());
        let _ = timeout(Duration::ZERO, timer.reach(Some(passes_ns))).await;
        sleep(SHORT).await;
        timer.reach(Some(passes_ns)).await.unwrap();
    }
}

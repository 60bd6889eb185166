//! A kernel's run: its groups and waves, a number of instructions at a time.

use std::collections::VecDeque;

use crate::code::Code;
use crate::decode::{Encoding, Instruction};
use crate::fault::{Cause, Fault};
use crate::launch::{Launch, LaunchError, Plan};
use crate::lds::Lds;
use crate::memory::Memory;
use crate::scalar::Request;
use crate::storage::Memories;
use crate::wave::{Progress, Wave};

/// Instructions that a wave executes before others of its group have a turn.
const WAVE_TURN: u64 = 1024;

/// Instructions that a group executes before others have a turn.
const GROUP_TURN: u64 = 64 << 10;

/// Instructions after which a wave that goes to sleep has done more than look whether it may go on.
const LOOK_MAX: u64 = 64;

/// Most groups that have begun and not ended: 64 compute units, each with one.
const RESIDENT_MAX: u64 = 64;

/// How far a run is after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It goes on.
    Runs,
    /// It goes on, but all its waves only slept.
    Waits,
    /// All groups have ended.
    Done,
}

/// A work group that has begun.
#[derive(Debug)]
struct Group {
    waves: Vec<Wave>,
    lds: Lds,
    /// Its part of the private memory.
    slot: u64,
}

/// A kernel that runs.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    code: Code,
    resident: VecDeque<Group>,
    /// Parts of the private memory that are free.
    free_slots: Vec<u64>,
    /// Number of the next group.
    next: u64,
    executed: u64,
    /// The same of each wave that has ended, without those between two sleeps.
    waves: Vec<u64>,
    interrupts: Vec<u32>,
}

impl Run {
    /// Reads the kernel's descriptor; executes nothing yet.
    pub fn new(launch: Launch, memory: &mut dyn Memory) -> Result<Self, LaunchError> {
        let plan = Plan::new(launch, memory)?;
        let resident = plan.resident_max().min(RESIDENT_MAX);
        Ok(Self {
            code: Code::new(plan.isa()),
            resident: VecDeque::new(),
            free_slots: (0..resident).rev().collect(),
            next: 0,
            executed: 0,
            waves: Vec::new(),
            interrupts: Vec::new(),
            plan,
        })
    }

    /// Instructions that all waves have executed.
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// Instructions of each wave that has ended, without those that it executed between two sleeps to see whether it may go on.
    pub fn waves(&self) -> &[u64] {
        &self.waves
    }

    /// The interrupts that waves have asked for since the last call.
    pub fn interrupts(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.interrupts)
    }

    /// Executes about `budget` instructions.
    pub fn step(&mut self, memory: &mut dyn Memory, budget: u64) -> Result<Step, Fault> {
        let end = self.executed + budget;
        let mut only_slept = true;
        while self.executed < end {
            self.admit();
            let Some(mut group) = self.resident.pop_front() else { return Ok(Step::Done) };
            only_slept &= !self.turn(&mut group, memory)?;
            if group.waves.iter().all(|wave| wave.progress == Progress::Ended) {
                self.free_slots.push(group.slot);
                self.waves.extend(group.waves.iter().map(|wave| wave.executed));
            } else {
                self.resident.push_back(group);
            }
        }
        Ok(match (self.resident.is_empty() && self.next == self.plan.group_count(), only_slept) {
            (true, _) => Step::Done,
            (_, true) => Step::Waits,
            _ => Step::Runs,
        })
    }

    /// Begins the next group, if there is one and room for it: one a turn, so that most groups end before the next begins.
    fn admit(&mut self) {
        if self.next < self.plan.group_count()
            && let Some(slot) = self.free_slots.pop()
        {
            let waves = self.plan.waves(self.next, slot);
            let lds = Lds::new(self.plan.lds as usize);
            self.resident.push_front(Group { waves, lds, slot });
            self.next += 1;
        }
    }

    /// One turn of a group. Says whether a wave did more than sleep.
    fn turn(&mut self, group: &mut Group, memory: &mut dyn Memory) -> Result<bool, Fault> {
        let end = self.executed + GROUP_TURN;
        let mut is_busy = false;
        while self.executed < end {
            let mut moved = false;
            for wave in &mut group.waves {
                if wave.progress == Progress::Sleeps {
                    wave.progress = Progress::Runs;
                    // A turn costs something, or a group of sleepers would never end its own.
                    self.executed += 1;
                }
                if wave.progress == Progress::Runs {
                    let (begin, of_wave) = (self.executed, wave.executed);
                    self.wave_turn(wave, &mut group.lds, memory)?;
                    if wave.progress == Progress::Sleeps && self.executed - begin <= LOOK_MAX {
                        wave.executed = of_wave;
                    } else {
                        moved = true;
                    }
                }
            }
            is_busy |= moved;
            if !release(&mut group.waves) && !moved {
                break;
            }
        }
        Ok(is_busy)
    }

    fn wave_turn(&mut self, wave: &mut Wave, lds: &mut Lds, memory: &mut dyn Memory) -> Result<(), Fault> {
        let (apertures, private_base) = (self.plan.apertures(), self.plan.private_base());
        for _ in 0..WAVE_TURN {
            let pc = wave.pc;
            let instruction = self.code.at(pc, memory)?;
            wave.pc = pc.wrapping_add(4 * u64::from(instruction.size));
            self.executed += 1;
            wave.executed += 1;
            let mut memories = Memories { memory, lds, apertures, private_base };
            let request = execute(wave, instruction, &mut memories).map_err(|cause| Fault {
                pc,
                instruction: instruction.to_string(),
                cause,
            })?;
            if let Request::Interrupt(number) = request {
                self.interrupts.push(number);
            }
            if wave.progress != Progress::Runs {
                break;
            }
        }
        Ok(())
    }
}

/// Lets the waves go on that are at a barrier, if no other wave runs. Says whether there are any.
fn release(waves: &mut [Wave]) -> bool {
    let is_complete = waves.iter().all(|wave| matches!(wave.progress, Progress::AtBarrier | Progress::Ended));
    let mut released = false;
    if is_complete {
        for wave in waves.iter_mut().filter(|wave| wave.progress == Progress::AtBarrier) {
            wave.progress = Progress::Runs;
            released = true;
        }
    }
    released
}

fn execute(
    wave: &mut Wave,
    instruction: &Instruction,
    memories: &mut Memories<'_>,
) -> Result<Request, Cause> {
    if usize::from(instruction.vgpr_end) > wave.vgpr.len() {
        return Err(Cause::Register(instruction.vgpr_end - 1));
    }
    match instruction.encoding {
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc | Encoding::Vop3 | Encoding::Vop3p => {
            wave.execute_vector(instruction)?;
        }
        Encoding::Smem | Encoding::Flat | Encoding::Mubuf => wave.execute_memory(instruction, memories)?,
        Encoding::Ds => wave.execute_lds(instruction, memories.lds)?,
        _ => return wave.execute_scalar(instruction),
    }
    Ok(Request::None)
}

//! Tables and walks against others' readings of the same unwind information.
//!
//! * `rows`: every row of system libraries against a straight interpretation by gimli.
//! * `chain`: every frame at every instruction of a program of seven libraries against framehop.
//! * `dialects`: libraries without `.eh_frame`.
//! * `hostile`: damaged libraries.

mod chain;
mod dialects;
mod elf;
mod hostile;
mod program;
mod rows;
mod straight;
mod traced;
mod walkers;

//! Compares tables and walks with other implementations that read the same unwind information.
//!
//! * `rows`: every row of system libraries, compared with a direct evaluation by gimli.
//! * `chain`: every frame at every instruction of a program of seven libraries, compared with framehop.
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

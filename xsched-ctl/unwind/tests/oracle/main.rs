//! Tables and walks against others' readings of the same unwind information.
//!
//! * `rows`: every row of system libraries against a straight interpretation by gimli.

mod elf;
mod rows;
mod straight;

//! AMD's ROCm 6.4, Debian sid's, on the stand-in GPU: `cargo xtask test --vm rocm6`.

use xsched_harness::needs;
use xsched_harness::needs::VM_ROCM_6;

use crate::{COMPUTED, NUMBERS, says_the_same_while_held_back};

/// What `products` prints if every product of rocBLAS has the bits of the host's. Then come those of the last one, which may be others
/// with another release.
const PRODUCTS: &str = "\
runtime 6.4
16 x 16 x 16: 256 of 256 values are right
33 x 17 x 65: 561 of 561 values are right
64 x 48 x 32, B transposed: 3072 of 3072 values are right
96 x 96 x 96: 9216 of 9216 values are right
96 x 96 x 96, B transposed: 9216 of 9216 values are right
31 x 96 x 7, B transposed: 2976 of 2976 values are right
fractions: 3200 of 3200 values are near, \
";

#[needs(VM_ROCM_6)]
fn kernels_compute_the_same_with_rocm_6_while_they_are_held_back() {
    says_the_same_while_held_back("computes", COMPUTED, "kernels, created streams");
}

#[needs(VM_ROCM_6)]
fn rocrands_numbers_are_the_documented_ones_with_rocm_6_while_they_are_held_back() {
    says_the_same_while_held_back("numbers", NUMBERS, "kernels, legacy null stream");
}

#[needs(VM_ROCM_6)]
fn rocblas_multiplies_as_the_host_does_while_it_is_held_back() {
    says_the_same_while_held_back("products", PRODUCTS, "kernels, created streams");
}

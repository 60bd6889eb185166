//! AMD's ROCm 6.4, Debian sid's, on the stand-in GPU: `cargo xtask test --vm rocm6`.

use std::process::Command;

use xsched_harness::needs;
use xsched_harness::needs::VM_ROCM_6;

use crate::recording::{host, program, run};
use crate::{
    COMPUTED, NUMBERS, SUSPENDED, commands_say_the_same_while_suspended, says_the_same_while_suspended,
};

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
fn kernels_compute_the_same_with_rocm_6_while_they_are_suspended() {
    says_the_same_while_suspended("computes", COMPUTED, "kernels, created streams");
}

#[needs(VM_ROCM_6)]
fn rocrands_numbers_are_the_documented_ones_with_rocm_6_while_they_are_suspended() {
    says_the_same_while_suspended("numbers", NUMBERS, "kernels, legacy null stream");
}

#[needs(VM_ROCM_6)]
fn rocblas_multiplies_as_the_host_does_while_it_is_suspended() {
    says_the_same_while_suspended("products", PRODUCTS, "kernels, created streams");
}

/// llama.cpp's answer to a prompt: the most likely tokens, in single precision. A step takes at most four tokens. Of more it makes
/// products with A transposed, by a kernel of rocBLAS that is wrong on a device of this kind (`programs/products.c`).
fn llama(options: &[&str]) -> Command {
    // Tokens are bytes, which are no text.
    let mut llama = program("/usr/bin/bash");
    llama.args(["-o", "pipefail", "-c", "llama-completion \"$@\" | od -A n -v -t x1", "llama", "-m"]);
    llama.arg(host("tiny.gguf")).args(options);
    let words =
        "-p hello -n 32 --temp 0 --ignore-eos -no-cnv --no-warmup -t 1 -fa off -ctk f32 -ctv f32 -b 4 -ub 4";
    llama.args(words.split(' '));
    llama
}

/// Compared with what llama.cpp's own CPU back end says.
#[needs(VM_ROCM_6)]
fn llama_says_the_same_as_on_a_processor_while_it_is_suspended() {
    let on_processor = run(&mut llama(&["-ngl", "0", "--device", "none"]));
    assert!(on_processor.code == 0, "{}{}", on_processor.stdout, on_processor.stderr);
    let bytes = on_processor.stdout.split_whitespace().count();
    assert!(bytes > "hello".len() + 32, "{}", on_processor.stdout);
    let on_device = || llama(&["-ngl", "99"]);
    commands_say_the_same_while_suspended(
        on_device,
        &on_processor.stdout,
        "kernels, created streams",
        &SUSPENDED[..2],
    );
}

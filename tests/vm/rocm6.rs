//! AMD's ROCm 6.4, Debian sid's, on the stand-in GPU: `cargo xtask test --vm rocm6`.

use std::path::Path;
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
1400 x 5 x 1100, A transposed: 7000 of 7000 values are right
fractions: 3200 of 3200 values are near, \
";

/// The variable that names rocBLAS's library of kernels. A third of those of 4.4 for gfx803 are wrong; `tests/gcn3/tests/rocblas` says why,
/// and makes a library in which they are mended.
const LIBRARY_OF_KERNELS: &str = "ROCBLAS_TENSILE_LIBPATH";

/// What `numbers` prints besides, if it is asked for all sequences.
const MORE_NUMBERS: &str = "\
xorwow: 4096 of 4096 numbers are right
mrg32k3a: 4096 of 4096 numbers are right
";

/// What `products` prints besides, before those of fractions, if all kernels are mended.
const MENDED_PRODUCTS: &str = "\
16 x 16 x 16, A transposed: 256 of 256 values are right
33 x 17 x 65, A transposed, B transposed: 561 of 561 values are right
64 x 48 x 32, A transposed: 3072 of 3072 values are right
96 x 96 x 96, A transposed, B transposed: 9216 of 9216 values are right
1024 x 32 x 64: 32768 of 32768 values are right
fractions";

#[needs(VM_ROCM_6)]
fn kernels_compute_the_same_with_rocm_6_while_they_are_suspended() {
    says_the_same_while_suspended("computes", COMPUTED, "kernels, created streams");
}

#[needs(VM_ROCM_6)]
fn rocrands_numbers_are_the_documented_ones_with_rocm_6_while_they_are_suspended() {
    let expected = format!("{NUMBERS}{MORE_NUMBERS}");
    let numbers = || {
        let mut numbers = program("numbers");
        numbers.arg("all");
        numbers
    };
    commands_say_the_same_while_suspended(numbers, &expected, "kernels, legacy null stream", &SUSPENDED);
}

#[needs(VM_ROCM_6)]
fn rocblas_multiplies_as_the_host_does_while_it_is_suspended() {
    says_the_same_while_suspended("products", PRODUCTS, "kernels, created streams");
}

#[needs(VM_ROCM_6)]
fn rocblas_multiplies_with_mended_kernels_as_the_host_does_while_it_is_suspended() {
    let mended = || {
        let mut products = program("products");
        products.arg("mended").env(LIBRARY_OF_KERNELS, host("rocblas"));
        products
    };
    let expected = PRODUCTS.replace("fractions", MENDED_PRODUCTS);
    commands_say_the_same_while_suspended(mended, &expected, "kernels, created streams", &SUSPENDED);
}

/// llama.cpp's answer to a prompt: the most likely tokens, in single precision.
fn llama(prompt: &str, options: &[&str]) -> Command {
    // Tokens are bytes, which are no text.
    let mut llama = program("/usr/bin/bash");
    llama.args(["-o", "pipefail", "-c", "llama-completion \"$@\" | od -A n -v -t x1", "llama", "-m"]);
    llama.arg(host("tiny.gguf")).args(["-p", prompt]).args(options);
    let words = "-n 32 --temp 0 --ignore-eos -no-cnv --no-warmup -t 1 -fa off -ctk f32 -ctv f32";
    llama.args(words.split(' '));
    llama
}

/// Compared with what llama.cpp's own CPU back end says, in steps of so many tokens at most.
fn llama_says_the_same(prompt: &str, step: &str, kernels: Option<&Path>) {
    let on_processor = run(&mut llama(prompt, &["-ngl", "0", "--device", "none"]));
    assert!(on_processor.code == 0, "{}{}", on_processor.stdout, on_processor.stderr);
    let bytes = on_processor.stdout.split_whitespace().count();
    assert!(bytes > prompt.len() + 32, "{}", on_processor.stdout);
    let on_device = || {
        let mut llama = llama(prompt, &["-ngl", "99", "-b", step, "-ub", step]);
        if let Some(kernels) = kernels {
            llama.env(LIBRARY_OF_KERNELS, kernels);
        }
        llama
    };
    commands_say_the_same_while_suspended(
        on_device,
        &on_processor.stdout,
        "kernels, created streams",
        &SUSPENDED[..2],
    );
}

/// A step takes at most four tokens. Of more it makes products with A transposed, for which rocBLAS chooses a kernel that is wrong.
#[needs(VM_ROCM_6)]
fn llama_says_the_same_as_on_a_processor_while_it_is_suspended() {
    llama_says_the_same("hello", "4", None);
}

#[needs(VM_ROCM_6)]
fn llama_says_the_same_with_mended_kernels_if_it_takes_a_whole_prompt() {
    llama_says_the_same("a prompt of more tokens than four", "64", Some(&host("rocblas")));
}

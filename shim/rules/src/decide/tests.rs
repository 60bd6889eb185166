use super::*;

fn frame(text: &str) -> Frame<'_> {
    match text.split_once(':') {
        Some((library, function)) => Frame { library, function: Some(function) },
        None => Frame { library: text, function: None },
    }
}

fn decide_in(book: &Rulebook, chain: &[&str]) -> Decision {
    decide_launch(book, chain, "gemm")
}

fn decide_launch(book: &Rulebook, chain: &[&str], kernel: &str) -> Decision {
    let chain: Vec<_> = chain.iter().map(|text| frame(text)).collect();
    book.decide(Call { chain: &chain, is_whole: true, api: Some("hipLaunchKernel"), kernel: Some(kernel) })
}

fn book(text: &str) -> Rulebook {
    Rulebook::new(Arc::new(Rules::parse(text).unwrap()), &Caller::default())
}

#[track_caller]
fn assert_decided(text: &str, chain: &[&str], action: Action, is_by_caller: bool) {
    let decision = decide_in(&book(text), chain);
    assert_eq!((decision.action, decision.is_by_caller), (action, is_by_caller), "{decision:?}");
}

use Action::{NeverSuspend, Passthrough, Schedule};

#[test]
fn the_default_set_decides_as_documented() {
    let deep = ["librocblas.so.4", "libhipblas.so.2", "libtorch_hip.so", "python3.11"];
    assert_decided("", &deep, Schedule, true);
    assert_decided("", &["libtorch_hip-3f0a.so", "python3.11"], Schedule, true);
    assert_decided("", &["librccl.so.1", "libtorch_hip.so", "python3.11"], NeverSuspend, true);
    assert_decided("", &["librccl-7ad1.so.1", "python3.11"], NeverSuspend, true);
    assert_decided("", &["libmpi.so.40", "app"], NeverSuspend, true);
    let find = ["libMIOpen.so.1:launch", "libMIOpen.so.1:miopenFindConvolutionForwardAlgorithm", "app"];
    assert_decided("", &find, Passthrough, false);
    assert_decided(
        "",
        &["libMIOpen.so.1:launch", "libMIOpen.so.1:miopenConvolutionForward", "app"],
        Schedule,
        false,
    );
    // The rule covers only the search's own launches, so the call sites of rocBLAS can be cached.
    assert_decided("", &["librocblas.so.4", "libMIOpen.so.1:miopenFindSolutions", "app"], Schedule, true);
    assert_decided("", &["libamdhip64.so.6", "libc.so.6"], Passthrough, false);
    assert_decided("", &["libamdhip64.so.6", "libtorch_hip.so", "python3.11"], Schedule, false);
    assert_decided("", &["app"], Schedule, true);
}

#[test]
fn kernels_that_wait_for_peers_are_never_suspended_by_default() {
    for library in [
        "module_custom_all_reduce.so",
        "module_quick_all_reduce.so",
        "libmori_ops.so",
        "libmori_shmem.so",
        "deep_ep_cpp.cpython-312-x86_64-linux-gnu.so",
        "librocshmem.so.3",
        "_pyrocshmem.cpython-312-x86_64-linux-gnu.so",
        "libmscclpp.so.0",
        "libucc.so.1",
    ] {
        assert_decided("", &[library, "python3.12"], NeverSuspend, true);
    }
    let kernels = [
        (
            "_C.abi3.so",
            "_ZN4vllm26cross_device_reduce_1stageI6__halfLi8EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii",
        ),
        (
            "_C.abi3.so",
            "_ZN11quickreduce27allreduce_prototype_twoshotINS_16AllReduceTwoshotI6__halfEES2_EEvPKT0_PS4_jjiPPhjjl",
        ),
        (
            "common_ops.abi3.so",
            "_ZN6sglang26cross_device_reduce_2stageI6__halfLi4EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii",
        ),
        (
            "libtorch_hip.so",
            "_ZN12_GLOBAL__N_126two_shot_all_reduce_kernelIN3c108BFloat16ELi16ELi8ELb0ELb0EEEvPPT_S4_mmPPjmmm",
        ),
        ("libtorch_hip.so", "_ZN4c10d16symmetric_memoryL18wait_signal_kernelEPPjiiiim"),
        ("libtransformer_engine.so", "_Z21kuserbuffers_pushrecviiiiPiS_ii"),
        ("__triton_launcher.cpython-312-x86_64-linux-gnu.so", "persistent_all_reduce_two_shot"),
        ("__triton_launcher.cpython-312-x86_64-linux-gnu.so", "barrier_all_intra_node_atomic_cas_block"),
    ];
    let book = book("");
    for (library, kernel) in kernels {
        let decide = |kernel| decide_launch(&book, &[library, "python3.12"], kernel);
        let (waiting, usual) = (decide(kernel), decide("_ZN2at6native18elementwise_kernelE"));
        assert_eq!((waiting.action, waiting.is_by_caller), (NeverSuspend, true), "{kernel}");
        assert_eq!((usual.action, usual.is_by_caller), (Schedule, true), "{library}");
        assert!(!waiting.is_for_any_kernel && !usual.is_for_any_kernel, "{library}");
    }
    // Nothing is asked about the kernels of others.
    for library in ["librocblas.so.4", "librccl.so.1", "module_gemm_a8w8.so", "python3.12"] {
        assert!(decide_in(&book, &[library, "app"]).is_for_any_kernel, "{library}");
    }
}

#[test]
fn the_compat_set_excludes_the_usual_libraries() {
    let compat = "profile = 'compat'";
    for library in [
        "libhipblas.so.2",
        "libhipblaslt.so.0",
        "librocblas.so.4",
        "libMIOpen.so.1",
        "librocfft.so.0",
        "libhipsparse.so.1",
        "librccl.so.1",
    ] {
        assert_decided(compat, &[library, "libtorch_hip.so", "python3"], Passthrough, true);
    }
    assert_decided(compat, &["libtorch_hip.so", "librocblas.so.4", "python3"], Schedule, true);
}

#[test]
fn the_compat_set_suspends_nothing_that_waits_for_its_peers() {
    let compat = "profile = 'compat'";
    for library in
        ["libmpi.so.40", "libucp.so.0", "libnccl.so.2", "module_custom_all_reduce.so", "librocshmem.so.1"]
    {
        assert_decided(compat, &[library, "python3"], NeverSuspend, true);
    }
    assert_decided(compat, &["libamdhip64.so.7"], Passthrough, false);
}

#[test]
fn the_first_match_decides() {
    let text = "[[rule]]\nlibrary = 'librccl*'\nfunction = 'ncclSend'\naction = 'schedule'\n";
    assert_decided(text, &["librccl.so.1:ncclSend", "app"], Schedule, true);
    assert_decided(text, &["librccl.so.1:ncclRecv", "app"], NeverSuspend, true);
}

#[test]
fn each_condition_applies_to_its_part_of_the_chain() {
    let rule = |condition: &str| format!("[[rule]]\n{condition}\naction = 'passthrough'\n");
    let chain =
        ["libamdhip64.so.6", "librocblas.so.4", "librocblas.so.4", "libffi.so.8", "libhipblas.so", "py"];
    let fits = |condition: &str| decide_in(&book(&rule(condition)), &chain).action == Passthrough;
    assert!(fits("library = 'librocblas*'") && !fits("library = 'libhipblas*'"));
    assert!(fits("chain = 'libhipblas*'") && fits("chain = 'libamdhip64*'") && !fits("chain = 'librccl*'"));
    assert!(fits("under = 'libhipblas*'") && !fits("under = 'py'") && !fits("under = 'libffi*'"));
    assert!(fits("outermost = 'py'") && !fits("outermost = 'libhipblas*'"));
    assert!(fits("api = 'hipLaunch*'") && !fits("api = 'hipMemcpy*'"));
    assert!(fits("kernel = 'ge*'") && !fits("kernel = 'x'"));
    assert!(fits("chain = ['librccl*', 'py']"), "one match of a list is sufficient");
    assert!(!fits("library = 'librocblas*'\nchain = 'librccl*'"), "all conditions must match");
}

#[test]
fn an_incomplete_chain_has_no_outermost_library_and_does_not_belong_to_the_runtime() {
    let text = "[[rule]]\noutermost = 'a'\naction = 'passthrough'\n";
    let decide = |library, is_whole| {
        let chain = [frame(library)];
        book(text).decide(Call { chain: &chain, is_whole, api: None, kernel: None }).action
    };
    assert_eq!((decide("a", true), decide("a", false)), (Passthrough, Schedule));
    assert_eq!(
        (decide("libamdhip64.so.6", true), decide("libamdhip64.so.6", false)),
        (Passthrough, Schedule)
    );
    assert_eq!(
        book("").decide(Call { chain: &[], is_whole: false, api: None, kernel: None }).by,
        Decider::Default
    );
}

#[test]
fn rules_select_processes_by_file_user_and_cgroup() {
    let caller = Caller {
        executable: "/opt/app/server".into(),
        users: vec!["1000".into(), "alice".into()],
        cgroups: vec!["/a.slice/b".into(), "/a.slice".into()],
    };
    let concerns = |condition: &str| {
        let text = format!("[[rule]]\n{condition}\naction = 'passthrough'\n");
        let book = Rulebook::new(Arc::new(Rules::parse(&text).unwrap()), &caller);
        decide_in(&book, &["app"]).action == Passthrough
    };
    for condition in
        ["process = 'server'", "process = '/opt/*'", "user = 'alice'", "user = '1000'", "cgroup = '/a.slice'"]
    {
        assert!(concerns(condition), "{condition}");
    }
    for condition in ["process = 'serve'", "process = '/srv/*'", "user = 'bob'", "cgroup = '/b*'"] {
        assert!(!concerns(condition), "{condition}");
    }
}

#[test]
fn the_nearest_scheduling_domain_precedes_the_rules() {
    let mut book = book("");
    book.set_domain("libblas.so", Some(NeverSuspend));
    book.set_domain("librccl.so.1", Some(Schedule));
    let decide = |book: &Rulebook, chain: &[&str]| {
        let Decision { action, by, is_by_caller, .. } = decide_in(book, chain);
        (action, by == Decider::Domain, is_by_caller)
    };
    assert_eq!(decide(&book, &["x", "libblas.so", "app"]), (NeverSuspend, true, false));
    assert_eq!(decide(&book, &["libblas.so", "librccl.so.1", "app"]), (NeverSuspend, true, true));
    assert_eq!(decide(&book, &["librccl.so.1", "libblas.so", "app"]), (Schedule, true, true));
    assert_eq!(decide(&book, &["app"]), (Schedule, false, false));
    book.set_domain("libblas.so", None);
    book.set_domain("librccl.so.1", None);
    assert_eq!(decide(&book, &["librccl.so.1", "app"]), (NeverSuspend, false, true));
}

/// For random rules: if the flag is set, random chains with the same immediate caller get the same verdict; with any kernel, if
/// the other flag is set too.
#[test]
fn decisions_by_caller_are_the_same_for_all_chains() {
    use std::fmt::Write as _;
    const LIBRARIES: [&str; 7] = [
        "libamdhip64.so.6",
        "libc.so.6",
        "librccl.so.1",
        "libMIOpen.so.1",
        "librocblas.so.4",
        "libblas.so",
        "app",
    ];
    const FUNCTIONS: [&str; 3] = ["miopenFindX", "run", "main"];
    const GLOBS: [&str; 8] = ["lib*", "librccl*", "*blas*", "app", "libMIOpen*", "libamdhip64*", "x*", "*"];
    const SEED: u64 = 0x5eed_0f0f_1234_9876;
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut below = move |count: usize| rng.usize(..count);
    let (mut decided, mut compared) = (0, 0);
    for round in 0..600 {
        let mut text = String::new();
        for _ in 0..below(4) {
            text.push_str("[[rule]]\n");
            for key in ["library", "chain", "under", "outermost"] {
                if below(3) == 0 {
                    let function = if key != "library" && below(3) == 0 { ":run" } else { "" };
                    writeln!(text, "{key} = '{}{function}'", GLOBS[below(GLOBS.len())]).unwrap();
                }
            }
            if below(4) == 0 {
                writeln!(text, "kernel = '{}*'", ["x", "xy"][below(2)]).unwrap();
            }
            if below(4) == 0 {
                writeln!(text, "function = '{}*'", FUNCTIONS[below(3)]).unwrap();
            }
            writeln!(text, "action = '{}'", ["schedule", "passthrough", "never-suspend"][below(3)]).unwrap();
            if below(4) == 0 {
                writeln!(text, "preemption = {}", 1 + below(3)).unwrap();
            }
        }
        let mut book = book(&text);
        if below(4) == 0 {
            book.set_domain(LIBRARIES[below(7)], Some([Schedule, NeverSuspend][below(2)]));
        }
        let mut chain = |first: Option<Frame<'static>>| {
            let len = 1 + below(6);
            let mut frames: Vec<_> = (0..len)
                .map(|_| Frame { library: LIBRARIES[below(7)], function: Some(FUNCTIONS[below(3)]) })
                .collect();
            if let Some(first) = first {
                frames[0] = first;
            }
            (frames, below(5) != 0, [None, Some("x"), Some("xyz"), Some("z")][below(4)])
        };
        for _ in 0..20 {
            let (frames, is_whole, kernel) = chain(None);
            let decide = |frames: &[Frame<'_>], is_whole, kernel| {
                book.decide(Call { chain: frames, is_whole, api: Some("hipLaunchKernel"), kernel })
            };
            let decision = decide(&frames, is_whole, kernel);
            if !decision.is_by_caller {
                continue;
            }
            decided += 1;
            for _ in 0..20 {
                let (others, is_whole, any) = chain(Some(frames[0]));
                let kernel = if decision.is_for_any_kernel { any } else { kernel };
                let other = decide(&others, is_whole, kernel);
                assert_eq!(
                    (other.action, other.mode, other.is_by_caller, other.is_for_any_kernel),
                    (decision.action, decision.mode, true, decision.is_for_any_kernel),
                    "seed {SEED:#x}, round {round}: {frames:?} and {others:?} by\n{text}{:?}",
                    book.domains()
                );
                compared += 1;
            }
        }
    }
    assert!(decided > 1000 && compared > 20_000, "{decided} decided by their callers, {compared} compared");
}

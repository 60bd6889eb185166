// Programs in the manner of XSched's examples, written against its headers.
//
//     xsched_api transparent     tasks on a stream; the environment says how urgent they are
//                hints PRIORITY  the same, and the program says so
//                threads         two streams, one more urgent: the process schedules itself
//                manual          the same; the thread of the urgent one suspends the other for each of its tasks
//                commands        the same, and all kernels are launched by functions that the queues are given
//                order           what waits for a suspended queue, and what does not
//                leaves          ends with a suspended queue and commands in it
//                resets          what is left of queues when their device is reset
//                codes           what each function answers
//                handles [SEED]  several threads use a few handles at random, good ones and bad ones
//
// `transparent` and `hints` print `ready PID`, begin after a line of standard input, and with `--until-end` go on until their
// standard input ends. All end with `wrong N`.

#include <string>

#include "codes.hpp"
#include "handles.hpp"
#include "order.hpp"
#include "resets.hpp"
#include "tasks.hpp"

static std::atomic<bool> is_over;

// As long as the other one has tasks.
static void keep_busy(Queue &queue) {
    while (!is_over) queue.task();
}

static void await_begin() {
    std::printf("ready %d\n", getpid());
    std::fflush(stdout);
    if (std::getchar() == EOF) std::exit(1);
}

static unsigned long long one_queue(bool has_hint, int priority, bool until_end) {
    Queue queue;
    if (has_hint) {
        queue.create();
        OK(XHintPriority(queue.xq, priority));
    }
    await_begin();
    if (until_end) {
        std::thread busy([&] { keep_busy(queue); });
        while (std::getchar() != EOF) {}
        is_over = true;
        busy.join();
    } else {
        do_tasks([&] { queue.task(); });
    }
    return queue.wrong();
}

static unsigned long long two_threads() {
    OK(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst));
    Queue low, high;
    low.create();
    high.create();
    OK(XHintPriority(low.xq, 1));
    OK(XHintPriority(high.xq, 2));
    std::thread busy([&] { keep_busy(low); });
    do_tasks([&] { high.task(); });
    is_over = true;
    busy.join();
    return low.wrong() + high.wrong();
}

static unsigned long long by_hand() {
    Queue low, high;
    low.create();
    high.create();
    std::thread busy([&] { keep_busy(low); });
    do_tasks([&] {
        OK(XQueueSuspend(low.xq, 0));
        high.task();
        OK(XQueueResume(low.xq, 0));
    });
    is_over = true;
    busy.join();
    return low.wrong() + high.wrong();
}

// A kernel of a queue, as a function that its queue calls.
static XResult launch_one(HwQueueHandle hwq, void *data) {
    Queue &queue = *static_cast<Queue *>(data);
    if (hwq != queue.hwq) return kXSchedErrorInvalidValue;
    queue.launch();
    return kXSchedSuccess;
}

static void submit_task(Queue &queue) {
    for (unsigned kernel = 0; kernel < KERNELS; kernel++) {
        HwCommandHandle command;
        OK(HwCommandCreateCallback(&command, launch_one, &queue));
        OK(XQueueSubmit(queue.xq, command));
    }
    OK(XQueueWaitAll(queue.xq));
}

static unsigned long long by_commands() {
    Queue low, high;
    low.create();
    high.create();
    std::thread busy([&] {
        while (!is_over) submit_task(low);
    });
    unsigned long long wrong = 0;
    do_tasks([&] {
        OK(XQueueSuspend(low.xq, 0));
        submit_task(high);
        // On the null stream, so behind what the other stream has, but not behind what its queue keeps.
        unsigned long long found[2];
        CHECK(hipMemcpy(found, high.state, sizeof found, hipMemcpyDeviceToHost));
        wrong += found[1] + (found[0] != high.launched);
        OK(XQueueResume(low.xq, 0));
    });
    is_over = true;
    busy.join();
    return wrong + low.wrong() + high.wrong();
}

static XResult late(HwQueueHandle, void *data) {
    std::printf("called with %d\n", *static_cast<int *>(data));
    return kXSchedSuccess;
}

// What the commands would use is gone when the process ends, and so may be the stream's work.
static unsigned long long leaves() {
    Queue queue;
    queue.create();
    OK(XQueueSuspend(queue.xq, 0));
    int gone = 1;
    for (unsigned number = 0; number < 3; number++) {
        HwCommandHandle command;
        OK(HwCommandCreateCallback(&command, late, &gone));
        OK(XQueueSubmit(queue.xq, command));
        queue.launch();
    }
    return 0;
}

int main(int argc, char **argv) {
    std::string mode = argc > 1 ? argv[1] : "";
    bool until_end = std::string(argv[argc - 1]) == "--until-end";
    unsigned long long wrong;
    if (mode == "transparent") wrong = one_queue(false, 0, until_end);
    else if (mode == "hints" && argc > 2) wrong = one_queue(true, std::atoi(argv[2]), until_end);
    else if (mode == "threads") wrong = two_threads();
    else if (mode == "manual") wrong = by_hand();
    else if (mode == "commands") wrong = by_commands();
    else if (mode == "leaves") wrong = leaves();
    else if (mode == "order") wrong = order_test::run();
    else if (mode == "resets") wrong = resets_test::run();
    else if (mode == "codes") wrong = codes_test::run();
    else if (mode == "handles") wrong = handles_test::run(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1);
    else return std::fprintf(stderr, "no such mode: %s\n", mode.c_str()), 2;
    std::printf("wrong %llu\n", wrong);
    return wrong != 0;
}

// A client of a shared device, for benchmarks and tests of the scheduler: makes requests of several kernels each.
//
//     sched_client [--us A,B,..]    durations of a request's kernels, in turn (default 100)
//                  [--kernels N]    kernels of a request (default: as many as durations)
//                  [--blocks B]     of each kernel (default 304)
//                  [--requests N]   ends after this many, or after
//                  [--seconds S]    this time, whichever comes first
//                  [--rate R]       requests per second, at random times; 0: the next as soon as one is done (default)
//                  [--ahead N]      requests in flight at a time (default 1)
//                  [--seed N]       of the random times
//                  [--priority P]   of the stream (default: a stream without one)
//                  [--device D]     the first device that it uses (default 0)
//                  [--devices N]    number of devices, each with a thread that does all of the above (default 1)
//                  [--cold]         does not use the device until it begins
//                  [--forks MS]     forks children at this interval, which do nothing or execute other programs
//                  [--exec MS]      executes the same program again after this time, and then does all of the above
//                  [--begun]        neither prints that it is ready nor waits: it was executed by itself
//                  [--and ...]      and at the same time, on a stream and a thread of its own, the following options
//
// Prints `ready PID`, begins after a line of standard input, and ends with one line of JSON. It contains for
// each request the times when it was due, when its first kernel was launched and when it was known to be
// done, in nanoseconds of CLOCK_BOOTTIME. Then come the kernels that did not arrive once and in order, the
// processor time of all threads meanwhile, and the children and those that failed.

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <sys/resource.h>
#include <time.h>

#include "children.hpp"
#include "device_step.hpp"

struct Plan {
    std::vector<unsigned> us = {100};
    unsigned long kernels = 0, requests = ~0ul, ahead = 1, seed = 1;
    unsigned blocks = 304, forks_ms = 0, exec_ms = 0;
    double seconds = 1e9, rate = 0;
    int priority = 0, device = 0, devices = 1;
    bool has_priority = false, is_cold = false, has_begun = false;

    // Reads options up to the end, or the next `--and`. `argument` then points behind that.
    explicit Plan(char **&argument) {
        while (*argument) {
            std::string name = *argument++;
            if (name == "--and") break;
            if (name == "--cold" || name == "--begun") {
                (name == "--cold" ? is_cold : has_begun) = true;
                continue;
            }
            if (!*argument || !set(name, *argument++)) {
                std::fprintf(stderr, "no such option, or without a value: %s\n", name.c_str());
                std::exit(2);
            }
        }
        if (!kernels) kernels = us.size();
    }

  private:
    bool set(const std::string &name, const char *value) {
        if (name == "--us") us = list(value);
        else if (name == "--kernels") kernels = std::strtoul(value, nullptr, 10);
        else if (name == "--blocks") blocks = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
        else if (name == "--requests") requests = std::strtoul(value, nullptr, 10);
        else if (name == "--seconds") seconds = std::strtod(value, nullptr);
        else if (name == "--rate") rate = std::strtod(value, nullptr);
        else if (name == "--ahead") ahead = std::strtoul(value, nullptr, 10);
        else if (name == "--seed") seed = std::strtoul(value, nullptr, 10);
        else if (name == "--priority") has_priority = true, priority = std::atoi(value);
        else if (name == "--device") device = std::atoi(value);
        else if (name == "--forks") forks_ms = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
        else if (name == "--exec") exec_ms = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
        else if (name == "--devices") devices = std::atoi(value);
        else return false;
        return !us.empty() && ahead > 0 && devices > 0;
    }

    static std::vector<unsigned> list(const char *text) {
        std::vector<unsigned> values;
        for (char *end; *text; text = *end ? end + 1 : end) {
            values.push_back(static_cast<unsigned>(std::strtoul(text, &end, 10)));
            if (end == text) return {};
        }
        return values;
    }
};

static long now_ns() {
    timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void sleep_until(long time_ns) {
    timespec time = {time_ns / 1000000000L, time_ns % 1000000000L};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &time, nullptr)) {}
}

static double cpu_us() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    auto us = [](const timeval &time) { return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec); };
    return us(usage.ru_utime) + us(usage.ru_stime);
}

struct Request {
    long wanted_ns, launched_ns, done_ns;
};

class Client {
  public:
    // On the device with this number.
    Client(const Plan &plan, int device) : plan(plan), device(device), random(plan.seed) {
        if (!plan.is_cold) set_up();
    }

    // Starts at this time, or at once.
    void run(long begin_ns) {
        if (!plan.is_cold) CHECK(hipSetDevice(device)); // for this thread
        if (begin_ns) sleep_until(begin_ns);
        else begin_ns = now_ns();
        long deadline_ns = begin_ns + static_cast<long>(plan.seconds * 1e9);
        for (unsigned long number = 0; number < plan.requests; number++) {
            if (in_flight.size() >= plan.ahead) finish_oldest();
            long wanted_ns = now_ns();
            if (plan.rate > 0) {
                // Each request is due at a random time within its own period.
                double moment = static_cast<double>(number) + std::uniform_real_distribution<>(0, 1)(random);
                long due_ns = begin_ns + static_cast<long>(moment * 1e9 / plan.rate);
                if (due_ns >= deadline_ns) break;
                // A late wake-up of this thread is not the device's fault; a request that had to wait for the
                // one before is.
                bool is_late = due_ns < wanted_ns;
                if (!is_late) sleep_until(due_ns);
                wanted_ns = is_late ? due_ns : now_ns();
            }
            if (now_ns() >= deadline_ns) break;
            launch(wanted_ns);
        }
        while (!in_flight.empty()) finish_oldest();
    }

    unsigned long long wrong() const { return stream ? stream->wrong() : 0; }

    std::vector<Request> requests;

  private:
    void set_up() {
        CHECK(hipSetDevice(device));
        stream = std::make_unique<Stream>(plan.has_priority ? &plan.priority : nullptr);
        events.resize(plan.ahead);
        for (hipEvent_t &event : events) CHECK(hipEventCreate(&event));
    }

    void launch(long wanted_ns) {
        long launched_ns = now_ns();
        if (!stream) set_up();
        for (unsigned long kernel = 0; kernel < plan.kernels; kernel++)
            stream->launch(plan.blocks, plan.us[kernel % plan.us.size()]);
        // With one request in flight the client waits for the stream, as most programs do.
        if (plan.ahead > 1) CHECK(hipEventRecord(events[requests.size() % plan.ahead], stream->handle));
        in_flight.push_back(requests.size());
        requests.push_back({wanted_ns, launched_ns, 0});
    }

    void finish_oldest() {
        unsigned long number = in_flight.front();
        in_flight.pop_front();
        if (plan.ahead > 1) CHECK(hipEventSynchronize(events[number % plan.ahead]));
        else stream->wait();
        requests[number].done_ns = now_ns();
    }

    const Plan &plan;
    int device;
    std::mt19937_64 random;
    std::unique_ptr<Stream> stream;
    std::vector<hipEvent_t> events;
    std::deque<unsigned long> in_flight;
};

static void print(const std::vector<std::unique_ptr<Client>> &clients, const Children &children, double used_us) {
    unsigned long long wrong = 0;
    for (const auto &client : clients) wrong += client->wrong();
    std::printf("{\"wrong\":%llu,\"cpu_us\":%.1f,\"requests\":[", wrong, used_us);
    const char *separator = "";
    for (const auto &client : clients)
        for (const Request &request : client->requests) {
            std::printf("%s[%ld,%ld,%ld]", separator, request.wanted_ns, request.launched_ns, request.done_ns);
            separator = ",";
        }
    std::printf("],\"children\":[%lu,%lu]}\n", children.made, children.failed);
}

int main(int, char **argv) {
    std::deque<Plan> plans;
    char **argument = argv + 1;
    do plans.emplace_back(argument);
    while (*argument);
    std::vector<std::unique_ptr<Client>> clients;
    for (const Plan &plan : plans)
        for (int device = plan.device; device < plan.device + plan.devices; device++)
            clients.push_back(std::make_unique<Client>(plan, device));
    const Plan &first = plans.front();
    long begin_ns = 0;
    if (!plans.back().has_begun) {
        std::printf("ready %d\n", static_cast<int>(getpid()));
        std::fflush(stdout);
        char line[32] = "";
        // Clients that get the same start time have the same requests beside each other in each run.
        if (std::fgets(line, sizeof line, stdin)) begin_ns = std::atol(line);
    }
    Children children(first.forks_ms, first.seed);
    // Everything in flight by then is lost, and so is this thread.
    if (first.exec_ms) std::thread(become_anew_after, first.exec_ms, argv).detach();
    double before_us = cpu_us();
    std::vector<std::thread> threads;
    for (auto &client : clients) threads.emplace_back([&client, begin_ns] { client->run(begin_ns); });
    for (std::thread &thread : threads) thread.join();
    children.end();
    // The exec may still be due.
    if (first.exec_ms) pause();
    print(clients, children, cpu_us() - before_us);
    return 0;
}

// Process operations at bad moments: children that are forked while kernels are in flight or deferred, and a
// program that executes itself again. A child that calls `exit` unregisters kernels; there the simulated
// runtime does not wait for its parent's work.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" char **environ;

// Creates children at intervals until it is destroyed, and counts those that fail.
class Children {
  public:
    explicit Children(unsigned every_ms, unsigned long seed) : random(seed) {
        if (every_ms) thread = std::thread([this, every_ms] { run(every_ms); });
    }

    ~Children() { end(); }

    // Number of children, and of those that failed.
    unsigned long made = 0, failed = 0;

    void end() {
        is_over = true;
        if (thread.joinable()) thread.join();
    }

  private:
    void run(unsigned every_ms) {
        while (!is_over) {
            usleep(1000 * static_cast<unsigned>(random() % (2 * every_ms)));
            int status = -1;
            pid_t child = make(random() % 7);
            while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
            made++;
            if (status != 0) {
                failed++;
                std::fprintf(stderr, "a child ended with status %d\n", status);
            }
        }
    }

    static pid_t make(unsigned long kind) {
        static char program[] = "/bin/true";
        char *arguments[] = {program, nullptr};
        pid_t child = -1;
        switch (kind) {
        case 0: // Like most programs that fork without exec, and Python's workers.
            if (!(child = fork())) _exit(0);
            return child;
        case 1: // Like programs that leave a process behind; no process waits for that one.
            if (!(child = fork())) {
                fork();
                _exit(0);
            }
            return child;
        case 2: // It outlives the commands in flight.
            if (!(child = fork())) {
                usleep(20000);
                _exit(0);
            }
            return child;
        case 3: // Its exit handlers are its parent's.
            if (!(child = fork())) exit(0);
            return child;
        case 4:
            if (!(child = fork())) {
                execv(program, arguments);
                _exit(127);
            }
            return child;
        case 5:
            // A child that shares its parent's memory until it executes another program.
            if (!(child = vfork())) {
                execv(program, arguments);
                _exit(127);
            }
            return child;
        default:
            return posix_spawn(&child, program, nullptr, nullptr, arguments, environ) == 0 ? child : -1;
        }
    }

    std::minstd_rand random;
    std::atomic<bool> is_over{false};
    std::thread thread;
};

// Executes the same program again after this time, whatever the other threads do. The new program starts at
// once and does not repeat this.
inline void become_anew_after(unsigned ms, char **argv) {
    std::vector<char *> arguments = {argv[0]};
    for (char **argument = argv + 1; *argument; argument++) {
        if (std::string(*argument) == "--exec") argument++;
        else arguments.push_back(*argument);
    }
    static char begun[] = "--begun";
    arguments.push_back(begun);
    arguments.push_back(nullptr);
    usleep(1000 * ms);
    execv("/proc/self/exe", arguments.data());
    std::perror("cannot become the same program");
    _exit(1);
}

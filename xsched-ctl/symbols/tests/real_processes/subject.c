/* A program that executes commands of tests: one command on each line of stdin, one answer on each line of stdout. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int subject_code(int x) { return x * 3 + 1; }
static __attribute__((noinline, used)) int hidden_code(int x) { return x * 5 + 2; }
int subject_data[4] = {1, 2, 3, 4};
int subject_zeroed[5000];
const int subject_constant[4] = {5, 6, 7, 8};

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void *open_as_memfd(const char *path) {
    char copy[64], bytes[65536];
    FILE *from = fopen(path, "r");
    int to = memfd_create("generated", 0);
    for (size_t n; from && (n = fread(bytes, 1, sizeof bytes, from)) > 0;)
        if (write(to, bytes, n) < 0) return NULL;
    snprintf(copy, sizeof copy, "/proc/self/fd/%d", to);
    return dlopen(copy, RTLD_NOW);
}

static void *work(void *arg) {
    prctl(PR_SET_NAME, "worker");
    printf("%d\n", gettid());
    fflush(stdout);
    for (;;) {
        char line[64];
        if (!fgets(line, sizeof line, stdin)) exit(0);
        if (!strcmp(line, "quit\n")) exit(0);
        printf("still here\n");
        fflush(stdout);
    }
    return arg;
}

int main(int argc, char **argv) {
    char line[4096];
    void *library = NULL;
    if (argc > 1) {
        /* Input that was written before the exec may have been read ahead already, so the answer says when to continue. */
        printf("ready\n");
        fflush(stdout);
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *word = strtok(line, " "), *rest = strtok(NULL, "");
        if (!word) continue;
        if (!strcmp(word, "open")) {
            library = dlopen(rest, RTLD_NOW | RTLD_LOCAL);
            printf("%s\n", library ? "ok" : dlerror());
        } else if (!strcmp(word, "open-as-memfd")) {
            library = open_as_memfd(rest);
            printf("%s\n", library ? "ok" : dlerror());
        } else if (!strcmp(word, "close")) {
            printf("%s\n", dlclose(library) ? dlerror() : "ok");
        } else if (!strcmp(word, "symbol")) {
            printf("%p\n", dlsym(library, rest));
        } else if (!strcmp(word, "time")) {
            printf("%llu\n", now());
        } else if (!strcmp(word, "code")) {
            printf("%p\n", (void *)subject_code);
        } else if (!strcmp(word, "hidden")) {
            printf("%p\n", (void *)hidden_code);
        } else if (!strcmp(word, "data")) {
            printf("%p\n", (void *)&subject_data[1]);
        } else if (!strcmp(word, "zeroed")) {
            printf("%p\n", (void *)&subject_zeroed[4999]);
        } else if (!strcmp(word, "constant")) {
            printf("%p\n", (void *)&subject_constant[1]);
        } else if (!strcmp(word, "vdso")) {
            printf("%p\n", (void *)(getauxval(AT_SYSINFO_EHDR) + 64));
        } else if (!strcmp(word, "heap")) {
            printf("%p\n", (void *)((char *)sbrk(0) - 16));
        } else if (!strcmp(word, "stack")) {
            printf("%p\n", (void *)line);
        } else if (!strcmp(word, "generate")) {
            printf("%p\n", mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        } else if (!strcmp(word, "unmapped")) {
            void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(page, 4096);
            printf("%p\n", page);
        } else if (!strcmp(word, "rename")) {
            prctl(PR_SET_NAME, rest);
            printf("ok\n");
        } else if (!strcmp(word, "fork")) {
            /* The child continues with the commands; the parent does so after the child's end. */
            pid_t child = fork();
            if (child == 0) {
                printf("%d\n", getpid());
            } else {
                waitpid(child, NULL, 0);
                printf("parent\n");
            }
        } else if (!strcmp(word, "exec")) {
            char *args[] = {rest, "second", NULL};
            execv(rest, args);
            printf("exec failed\n");
        } else if (!strcmp(word, "leave-to-thread")) {
            pthread_t thread;
            pthread_create(&thread, NULL, work, NULL);
            pthread_exit(NULL);
        } else if (!strcmp(word, "quit")) {
            return 0;
        } else {
            printf("what is %s?\n", word);
        }
        fflush(stdout);
    }
    return argv[0] == NULL;
}

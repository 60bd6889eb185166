// One of several processes that share the device, with one copy of the runtime for each library that its arguments name. Each line
// of its input has two numbers: so many kernels it launches with each copy, of so many rounds. It waits for them and prints when
// they were executed, those of the first copy first. In the end it says how many of the values that they have computed are right.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "share.h"

enum { COPIES = 2 };

struct Copy {
    typeof(share_begin) *begin;
    typeof(share_launch) *launch;
    typeof(share_wait) *wait;
    typeof(share_right) *right;
};

static void *function(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        puts(dlerror());
        exit(2);
    }
    return found;
}

static struct Copy opened(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return (struct Copy){function(library, "share_begin"), function(library, "share_launch"),
                         function(library, "share_wait"), function(library, "share_right")};
}

int main(int count, char **paths) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct Copy copies[COPIES];
    int copy_count = count - 1;
    if (copy_count < 1 || copy_count > COPIES) return 2;
    for (int c = 0; c < copy_count; c++) copies[c] = opened(paths[1 + c]);
    for (int c = 0; c < copy_count; c++) copies[c].begin();
    puts("ready");

    char line[64];
    unsigned kernels, rounds, launched = 0, right = 0;
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%u %u", &kernels, &rounds) == 2 && kernels <= MOST) {
        for (unsigned i = 0; i < kernels; i++)
            for (int c = 0; c < copy_count; c++) copies[c].launch(i, rounds);
        launched += kernels * copy_count;
        static struct Executed times[MOST];
        for (int c = 0; c < copy_count; c++) {
            copies[c].wait(kernels, times);
            for (unsigned i = 0; i < kernels; i++) printf("%lu-%lu ", times[i].began, times[i].ended);
        }
        puts("done");
    }
    for (int c = 0; c < copy_count; c++) right += copies[c].right();
    printf("%u of %d values are right after %u kernels\n", right, WIDTH * copy_count, launched);
    return 0;
}

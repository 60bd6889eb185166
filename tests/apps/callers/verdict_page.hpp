// The verdicts that the controller's programs have given this process: the verdict page that the shim has
// mapped, found by its size among the mappings of BPF. Its layout is that of xsched-ebpf/src/verdict.rs.

#ifndef VERDICT_PAGE_HPP
#define VERDICT_PAGE_HPP

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

class VerdictPage {
  public:
    // Ends the program if there is no page.
    VerdictPage() : page(find()) {
        if (page) return;
        std::fprintf(stderr, "no page of verdicts is mapped\n");
        std::exit(1);
    }

    // The answer to the latest question of this thread, the only one that asks: its action, and whether it is
    // new since the last call.
    struct Answer {
        unsigned action;
        bool is_pending, is_new;
    };

    Answer look() {
        // The first thread that asked has the first slot permanently.
        const volatile Slot &slot = page->slots[0];
        Answer answer = {unsigned(slot.verdict & 0xff), (slot.verdict >> 17 & 1) != 0, slot.ticket != ticket};
        ticket = slot.ticket;
        return answer;
    }

  private:
    struct alignas(64) Slot {
        std::uint64_t ticket, verdict, chain;
        std::uint32_t origin, rule;
        std::uint64_t generation, reserved[3];
    };
    struct Page {
        std::uint64_t generation, reserved[7];
        Slot slots[1024];
    };
    static_assert(sizeof(Slot) == 64 && sizeof(Page) == 64 + 64 * 1024);

    const volatile Page *page;
    std::uint64_t ticket = 0;

    static const volatile Page *find() {
        constexpr unsigned long MEMORY_PAGE = 4096, SIZE = (sizeof(Page) + MEMORY_PAGE - 1) / MEMORY_PAGE * MEMORY_PAGE;
        const volatile Page *found = nullptr;
        char line[4096 + 128];
        std::FILE *maps = std::fopen("/proc/self/maps", "r");
        while (maps && std::fgets(line, sizeof line, maps)) {
            unsigned long start = 0, end = 0;
            bool is_map = std::strstr(line, "bpf-map") && std::sscanf(line, "%lx-%lx", &start, &end) == 2;
            if (is_map && end - start == SIZE) found = reinterpret_cast<const volatile Page *>(start);
        }
        if (maps) std::fclose(maps);
        return found;
    }
};

#endif

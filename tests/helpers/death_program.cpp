// A rank of which one, the victim, comes to its end while all make the same call again and again.
//
//   death_program CALL END VICTIM [MIB]
//
// CALL is one of the operations below, `child` (all_reduce on a communicator split off), `join` (no call: the
// end comes while the ranks join) or `thread` (all_reduce on a communicator made by a thread that has ended).
// When the victim's standard input ends, it does END: exit, _exit, exec, leave (it makes no call more, and
// every other rank ends, too, as soon as its own call has failed), or nothing for `killed`, where somebody
// else sees to it, and for `forked` and `cloned`, where besides a child process lives until the input ends;
// that of `cloned` was made without fork's handlers, so that it holds the victim's connections. The victim
// has MIB of memory of its own. Prints "ready" before the first call, and in the end
//   error CODE CULPRIT...: TEXT
//   at NANOSECONDS          (of the monotonic clock, when the call had failed)
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/rank_program.hpp"

using namespace ddprun;

namespace {

constexpr std::size_t kSmall = 100;
constexpr std::size_t kLarge = 400'000;

struct Buffers {
    explicit Buffers(const Communicator& comm)
        : part(kLarge / 8), whole(part.size() * static_cast<std::size_t>(comm.world_size())) {}

    std::vector<float> small = std::vector<float>(kSmall);
    std::vector<float> large = std::vector<float>(kLarge);
    std::vector<float> part;
    std::vector<float> whole;
};

using Body = void (*)(Communicator&, Buffers&);

void shift(Communicator& comm, Buffers& b) {
    const int n = comm.world_size();
    const int right = (comm.rank() + 1) % n;
    const int left = (comm.rank() + n - 1) % n;
    // Every second rank receives first, so that nobody waits for itself.
    if (comm.rank() % 2 == 0) comm.send(std::span(b.part), right);
    comm.recv(std::span(b.whole).first(b.part.size()), left);
    if (comm.rank() % 2 == 1) comm.send(std::span(b.part), right);
}

struct NamedCall {
    std::string_view name;
    Body body;
};

constexpr NamedCall kCalls[] = {
    {"small", [](Communicator& c, Buffers& b) { c.all_reduce(std::span(b.small), ReduceOp::max); }},
    {"large", [](Communicator& c, Buffers& b) { c.all_reduce(std::span(b.large), ReduceOp::max); }},
    {"broadcast", [](Communicator& c, Buffers& b) { c.broadcast(std::span(b.large), 1); }},
    {"all_gather", [](Communicator& c, Buffers& b) { c.all_gather(b.part, std::span(b.whole)); }},
    {"reduce_scatter",
     [](Communicator& c, Buffers& b) { c.reduce_scatter(b.whole, std::span(b.part), ReduceOp::max); }},
    {"reduce", [](Communicator& c, Buffers& b) { c.reduce(std::span(b.large), ReduceOp::max, 0); }},
    {"gather", [](Communicator& c, Buffers& b) { c.gather(b.part, std::span(b.whole), 0); }},
    {"scatter", [](Communicator& c, Buffers& b) { c.scatter(b.whole, std::span(b.part), 0); }},
    {"all_to_all", [](Communicator& c, Buffers& b) { c.all_to_all(b.whole, std::span(b.whole)); }},
    {"barrier", [](Communicator& c, Buffers&) { c.barrier(); }},
    {"send", shift},
    {"split", [](Communicator& c, Buffers&) { c.split(0, c.rank()).value().barrier(); }},
};

Body body_of(std::string_view name) {
    for (const NamedCall& call : kCalls) {
        if (call.name == name) return call.body;
    }
    return kCalls[0].body;
}

void say_ready() {
    std::printf("ready\n");
    std::fflush(stdout);
}

void await_end_of_input() {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

void occupy(std::size_t bytes) {
    if (bytes == 0) return;
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Faster than writing into each page.
    if (memory == MAP_FAILED || ::madvise(memory, bytes, MADV_POPULATE_WRITE) != 0)
        throw std::runtime_error("no memory");
}

void come_to(const std::string& end, const std::shared_ptr<std::atomic<bool>>& leaves) {
    if (end == "killed") return;
    if (end == "leave") {
        std::thread([leaves] {
            await_end_of_input();
            *leaves = true;
        }).detach();
        return;
    }
    if (end == "forked" || end == "cloned") {
        const pid_t child = end == "forked" ? ::fork() : ::_Fork();
        if (child != 0) return;
        await_end_of_input();
        ::_exit(0);
    }
    std::thread([end] {
        await_end_of_input();
        if (end == "exit") std::exit(0);
        if (end == "_exit") ::_exit(0);
        if (end == "exec") ::execl("/bin/true", "/bin/true", nullptr);
        std::abort();
    }).detach();
}

Communicator made_by_thread(const CommunicatorOptions& options) {
    std::optional<Communicator> made;
    std::thread([&] { made.emplace(Communicator::from_env(options)); }).join();
    return std::move(*made);
}

// Says when, at once; then, if it shall, stays as it is, and so out of the way of those that have not heard
// yet.
void report_failure(bool stays) {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    std::printf("at %ld\n", time.tv_sec * 1'000'000'000 + time.tv_nsec);
    std::fflush(stdout);
    if (stays) await_end_of_input();
}

void run(const std::vector<std::string>& arguments) {
    const auto leaves = std::make_shared<std::atomic<bool>>(false);
    const std::string& call = arguments.at(0);
    CommunicatorOptions options;
    if (call == "join") options.join_timeout = std::chrono::seconds(10);
    if (call == "join") say_ready();
    Communicator comm = call == "thread" ? made_by_thread(options) : Communicator::from_env(options);
    std::optional<Communicator> child;
    if (call == "child") child = comm.split(0, comm.rank());
    Communicator& used = child ? *child : comm;
    if (comm.rank() == std::stoi(arguments.at(2))) {
        if (arguments.size() > 3) occupy(std::stoul(arguments.at(3)) << 20);
        come_to(arguments.at(1), leaves);
    }
    Buffers buffers(used);
    const Body body = body_of(call);
    if (call != "join") {
        used.barrier();
        say_ready();
    }
    try {
        while (!*leaves) body(used, buffers);
    } catch (const CollectiveError&) {
        report_failure(arguments.at(1) != "leave");
        throw;
    }
}

}  // namespace

int main(int argc, char** argv) { return run_rank_program(argc, argv, run); }

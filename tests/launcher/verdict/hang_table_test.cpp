#include <functional>
#include <iterator>

#include "launcher/verdict/judge.hpp"
#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Look = std::vector<Observation>;
using Ranks = std::vector<int>;

// All of four ranks but rank 3 wait in an all_reduce.
Look missed_by(const Observed& made, const Observation& third) {
    return {made.meets(0, "all_reduce", 140, {3}), made.meets(1, "all_reduce", 140, {0}),
            made.meets(2, "all_reduce", 140, {1}), third};
}

Look missed_by(const Observed& made, WaitKind kind, const std::string& object = {}) {
    return missed_by(made, made.away(3, kind, "next_batch", object));
}

Look joining(const Observed& made, const Observation& third) {
    constexpr const char* kTorch = "/usr/lib/python3/dist-packages/torch/distributed/";
    Look look;
    for (int rank = 0; rank < 3; ++rank)
        look.push_back(
            made.rank(rank, WaitKind::socket,
                      {native("c10d::TCPStore::doWait", "/opt/torch/lib/libtorch_cpu.so"),
                       python("_store_based_barrier", std::string(kTorch) + "distributed_c10d.py", 880),
                       python("init_process_group", std::string(kTorch) + "distributed_c10d.py", 1710),
                       python("setup", "/proj/train.py", 20)}));
    look.push_back(third);
    return look;
}

Observation in_device(const Observed& made, int rank, int line) {
    return made.rank(rank, WaitKind::running,
                     {native("clock_gettime", "[vdso]"), native("", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
                      native("cudaStreamSynchronize", "/opt/torch/lib/libcudart.so.12"),
                      native("at::native::_local_scalar_dense_cuda", "/opt/torch/lib/libtorch_cuda.so"),
                      python("step", "/proj/train.py", line)});
}

Observation synchronizing(const Observed& made, int rank) {
    return made.rank(rank, WaitKind::running,
                     {python("synchronize", "/usr/lib/python3/dist-packages/torch/cuda/__init__.py", 1040),
                      python("step", "/proj/train.py", 140)});
}

Observation in_store(const Observed& made, int rank) {
    return made.rank(rank, WaitKind::socket,
                     {native("recv", "/lib/x86_64-linux-gnu/libc.so.6"),
                      native("c10d::TCPStore::get", "/opt/torch/lib/libtorch_cpu.so"),
                      python("fetch_key", "/proj/train.py", 77)});
}

Observation unreadable(const Observed& made, int rank) {
    Observation one = made.ended(rank);
    one.exit_code.reset();
    one.wait.reset();
    one.why_unreadable = "the kernel does not let this process read process 12";
    return one;
}

Observation with_process(Observation one, pid_t process) {
    one.wait->process = process;
    return one;
}

Observation in_group(Observation one, const std::string& group, Ranks awaited) {
    if (!one.call) one.call = CollectiveCall{"all_reduce", "", 7, 31'000, {}};
    one.call->group = group;
    one.call->awaited = std::move(awaited);
    return one;
}

Look two_by_two(const Observed& made) {
    return {made.meets(0, "recv", 140, {1}), made.meets(1, "recv", 150, {0}), made.meets(2, "recv", 140, {3}),
            made.meets(3, "recv", 150, {2})};
}

// Needs: of the program, so that the way exists or is seen.
enum class Needs { nothing, frames_of_python, awaited_ranks, frames_of_a_call };

bool has(Program program, Needs needs) {
    if (needs == Needs::frames_of_python) return program != Program::cpp;
    if (needs == Needs::frames_of_a_call) return program != Program::sockets;
    return needs == Needs::nothing || program != Program::gloo;  // Gloo does not tell for whom a rank waits
}

struct Way {
    const char* name;
    std::function<Look(const Observed&)> look;
    VerdictKind kind;
    Ranks suspects;
    const char* sentence;  // what it has
    Needs needs = Needs::nothing;
};

// The first 13 are of one rank that does not come to an all_reduce.
const Way kWays[] = {
    {"sleeps",
     [](auto& made) { return missed_by(made, WaitKind::sleep); },
     VerdictKind::hang,
     {3},
     "rank 3 (gpu07) sleeps in next_batch"},
    {"reads a file",
     [](auto& made) { return missed_by(made, WaitKind::file, "/mnt/shards/0113.tar"); },
     VerdictKind::hang,
     {3},
     "rank 3 (gpu07) waits for a file system in next_batch"},
    {"names the file",
     [](auto& made) { return missed_by(made, WaitKind::file, "/mnt/shards/0113.tar"); },
     VerdictKind::hang,
     {3},
     ", /mnt/shards/0113.tar; ranks 0-2 wait"},
    {"holds a lock twice",
     [](auto& made) {
         Observation one = made.away(3, WaitKind::lock, "next_batch", "it holds itself");
         one.wait->thread = one.pid;
         return missed_by(made, one);
     },
     VerdictKind::hang,
     {3},
     "waits for a lock that it holds itself in next_batch"},
    {"waits for a lock of nobody",
     [](auto& made) { return missed_by(made, WaitKind::lock); },
     VerdictKind::hang,
     {3},
     "waits for a lock in next_batch"},
    {"waits for a child",
     [](auto& made) { return missed_by(made, WaitKind::child, "process 77 (tar)"); },
     VerdictKind::hang,
     {3},
     "waits for the end of process 77 (tar) in next_batch"},
    {"waits for its data loader's worker",
     [](auto& made) { return missed_by(made, WaitKind::pipe, "pipe:[12], which process 77 (python3) has"); },
     VerdictKind::hang,
     {3},
     "waits for a pipe in next_batch"},
    {"is stopped in the call",
     [](auto& made) {
         Observation one = made.meets(3, "all_reduce", 140, {2});
         one.wait->kind = WaitKind::stopped;
         return missed_by(made, one);
     },
     VerdictKind::hang,
     {3},
     "rank 3 (gpu07) is stopped"},
    {"is traced",
     [](auto& made) { return missed_by(made, WaitKind::traced, "process 77 (strace)"); },
     VerdictKind::hang,
     {3},
     "is traced by process 77 (strace) in next_batch"},
    {"is in a debugger",
     [](auto& made) {
         return missed_by(made, made.rank(3, WaitKind::pipe,
                                          {python("cmdloop", "/usr/lib/python3.11/cmd.py", 126),
                                           python("step", "/proj/train.py", 139)}));
     },
     VerdictKind::hang,
     {3},
     "waits for a pipe in step (train.py:139)",
     Needs::frames_of_python},
    {"computes for ever",
     [](auto& made) { return missed_by(made, WaitKind::running); },
     VerdictKind::hang,
     {3},
     "rank 3 (gpu07) runs in next_batch"},
    {"prints what nobody reads",
     [](auto& made) { return missed_by(made, WaitKind::output); },
     VerdictKind::hang,
     {3},
     "waits for its output to be read"},
    {"asks a server",
     [](auto& made) { return missed_by(made, WaitKind::socket, "10.9.9.9:443"); },
     VerdictKind::hang,
     {3},
     "waits for a socket in next_batch"},
    {"waits for a file's lock that another has who sleeps",
     [](auto& made) {
         Look look = missed_by(made, made.away(3, WaitKind::sleep));
         look[2] = with_process(made.away(2, WaitKind::file_lock, "next_batch", "/data/lock"), 1003);
         return look;
     },
     VerdictKind::hang,
     {3},
     "rank 3 (gpu07) sleeps"},
    {"ended early with 0",
     [](auto& made) { return missed_by(made, made.ended(3)); },
     VerdictKind::hang,
     {3},
     "rank 3 (gpu07) has ended with exit code 0; ranks 0-2 wait"},
    {"ended early, one sleeps",
     [](auto& made) {
         Look look = missed_by(made, made.ended(3));
         look[2] = made.away(2, WaitKind::sleep);
         if (look[0].call) look[0].call->awaited.clear();
         return look;
     },
     VerdictKind::hang,
     {3},
     "has ended with exit code 0"},
    {"ended early, one computes",
     [](auto& made) {
         return Look{made.meets(0, "all_reduce", 140, {2, 3}), made.meets(1, "all_reduce", 140, {2, 3}),
                     made.away(2, WaitKind::running), made.ended(3)};
     },
     VerdictKind::hang,
     {2},
     "rank 2 (gpu07) runs in next_batch"},
    {"has a call too many",
     [](auto& made) {
         return Look{made.meets(0, "all_reduce", 140, {1}), made.ended(1), made.ended(2), made.ended(3)};
     },
     VerdictKind::hang,
     {0},
     "rank 0 (gpu06) waits"},
    {"has failed, and the others wait",
     [](auto& made) { return missed_by(made, made.ended(3, 1)); },
     VerdictKind::hang,
     {3},
     "has ended with exit code 1"},
    {"gave up first, another sleeps",
     [](auto& made) {
         return Look{made.meets(0), made.meets(1), made.away(2, WaitKind::sleep), made.ended(3, 1)};
     },
     VerdictKind::hang,
     {2},
     "rank 2 (gpu07) sleeps"},
    {"never joined",
     [](auto& made) { return joining(made, made.away(3, WaitKind::sleep, "load_model")); },
     VerdictKind::hang,
     {3},
     "rank 3 (gpu07) sleeps in load_model",
     Needs::frames_of_python},
    {"never connected",
     [](auto& made) {
         Observation first = made.away(0, WaitKind::socket, "accept_all", "connections to 10.0.0.1:4000");
         first.wait->is_listening = true;
         return Look{first, made.meets(1, "all_reduce", 140, {0}), made.away(2, WaitKind::sleep),
                     made.meets(3, "all_reduce", 140, {0})};
     },
     VerdictKind::hang,
     {2},
     "rank 2 (gpu07) sleeps"},
    {"cannot be read",
     [](auto& made) { return missed_by(made, unreadable(made, 3)); },
     VerdictKind::hang,
     {3},
     "is not known: the kernel does not let"},
    {"two rings of recv",
     two_by_two,
     VerdictKind::deadlock,
     {0, 1, 2, 3},
     "ranks 0-3 wait for each other: rank 0 for rank 1",
     Needs::awaited_ranks},
    {"tags crossed, the rest waits",
     [](auto& made) {
         return Look{made.meets(0, "recv", 140, {1}), made.meets(1, "recv", 150, {0}),
                     made.meets(2, "recv", 140, {1}), made.meets(3, "recv", 140, {2})};
     },
     VerdictKind::deadlock,
     {0, 1},
     "rank 1 for rank 0",
     Needs::awaited_ranks},
    {"sends to each other",
     [](auto& made) {
         return Look{made.meets(0, "send", 140, {1}), made.meets(1, "send", 140, {0}),
                     made.away(2, WaitKind::running), made.away(3, WaitKind::running)};
     },
     VerdictKind::deadlock,
     {0, 1},
     "ranks 0-1 wait for each other",
     Needs::awaited_ranks},
    {"locks of files crossed",
     [](auto& made) {
         Look look = missed_by(made, with_process(made.away(3, WaitKind::file_lock, "lock_a", "/a"), 1002));
         look[2] = with_process(made.away(2, WaitKind::file_lock, "lock_b", "/b"), 1003);
         return look;
     },
     VerdictKind::deadlock,
     {2, 3},
     "rank 2 for rank 3 in lock_b"},
    {"groups crossed",
     [](auto& made) {
         return Look{in_group(made.meets(0), "a", {1}), in_group(made.meets(1), "b", {2}),
                     in_group(made.meets(2), "c", {0}), in_group(made.meets(3), "a", {1})};
     },
     VerdictKind::deadlock,
     {0, 1, 2},
     "ranks 0-2 wait for each other"},
    {"two groups, each in a call of its own",
     [](auto& made) {
         return Look{in_group(made.meets(0), "a", {1}), in_group(made.meets(1), "a", {0}),
                     in_group(made.meets(2), "b", {3}), in_group(made.meets(3), "b", {2})};
     },
     VerdictKind::hang,
     {},
     "no rank is missing",
     Needs::frames_of_a_call},
    {"barrier and the data of another",
     [](auto& made) {
         return Look{made.meets(0, "monitored_barrier"), made.meets(1, "monitored_barrier"),
                     made.away(2, WaitKind::file), made.meets(3, "monitored_barrier")};
     },
     VerdictKind::hang,
     {2},
     "rank 2 (gpu07) waits for a file system"},
    {"waits for a key that nobody sets",
     [](auto& made) {
         return Look{made.meets(0), in_store(made, 1), made.meets(2), made.meets(3)};
     },
     VerdictKind::hang,
     {1},
     "rank 1 (gpu06) waits for the store in fetch_key (train.py:77)",
     Needs::frames_of_python},
    {"all wait for a key",
     [](auto& made) {
         return Look{in_store(made, 0), in_store(made, 1), in_store(made, 2), in_store(made, 3)};
     },
     VerdictKind::hang,
     {},
     "ranks 0-3 wait for the store in fetch_key (train.py:77); no rank is missing",
     Needs::frames_of_python},
    {"sleeps, the others wait for a key",
     [](auto& made) {
         return Look{in_store(made, 0), in_store(made, 1), made.away(2, WaitKind::sleep), in_store(made, 3)};
     },
     VerdictKind::hang,
     {2},
     "ranks 0-1,3 wait for the store",
     Needs::frames_of_python},
    {"sleeps, the others' devices wait",
     [](auto& made) {
         return Look{in_device(made, 0, 140), made.away(1, WaitKind::sleep, "fetch"), synchronizing(made, 2),
                     in_device(made, 3, 140)};
     },
     VerdictKind::hang,
     {1},
     "rank 1 (gpu06) sleeps in fetch",
     Needs::frames_of_python},
    {"all devices wait",
     [](auto& made) {
         return Look{in_device(made, 0, 140), in_device(made, 1, 140), in_device(made, 2, 140),
                     in_device(made, 3, 140)};
     },
     VerdictKind::hang,
     {},
     "ranks 0-3 wait for a device in step (train.py:140); no rank is missing",
     Needs::frames_of_python},
    {"all devices wait, one launched less",
     [](auto& made) {
         Look look;
         for (int rank = 0; rank < 4; ++rank) {
             look.push_back(in_device(made, rank, 140));
             look.back().call = CollectiveCall{"AllReduce", "", rank == 1 ? 5u : 6u, {}, {}};
         }
         return look;
     },
     VerdictKind::hang,
     {1},
     "rank 1 (gpu06) waits for a device",
     Needs::frames_of_python},
    {"nobody waits, one does nothing",
     [](auto& made) {
         return Look{made.away(0, WaitKind::running), made.away(1, WaitKind::running),
                     made.away(2, WaitKind::sleep), made.away(3, WaitKind::running)};
     },
     VerdictKind::hang,
     {2},
     "rank 2 (gpu07) sleeps"},
    {"nobody computes, all wait for a file system",
     [](auto& made) {
         return Look{made.away(0, WaitKind::file), made.away(1, WaitKind::file), made.away(2, WaitKind::file),
                     made.away(3, WaitKind::sleep)};
     },
     VerdictKind::hang,
     {0, 1, 2},
     "ranks 0-2 wait for a file system"},
    {"two sleep, one of them is not awaited",
     [](auto& made) {
         return Look{made.meets(0, "all_reduce", 140, {1}), made.meets(1, "all_reduce", 140, {2}),
                     made.away(2, WaitKind::sleep), made.away(3, WaitKind::sleep)};
     },
     VerdictKind::hang,
     {2},
     "",
     Needs::awaited_ranks},
};

// Of all ranks in calls; plain sockets do not tell which.
const Way kCalls[] = {
    {"different operations",
     [](auto& made) {
         return Look{made.meets(0, "all_reduce", 140, {3}), made.meets(1, "all_reduce", 140, {3}),
                     made.meets(2, "all_reduce", 140, {3}), made.meets(3, "broadcast", 150, {0})};
     },
     VerdictKind::mismatch,
     {3},
     "rank 3 (gpu07) waits in broadcast ("},
    {"a parameter that is not used: another call site",
     [](auto& made) {
         return Look{made.meets(0), made.meets(1), made.meets(2, "all_reduce", 151), made.meets(3)};
     },
     VerdictKind::mismatch,
     {2},
     "rank 2 (gpu07) waits in all_reduce ("},
    {"half and half",
     [](auto& made) {
         return Look{made.meets(0), made.meets(1), made.meets(2, "broadcast"), made.meets(3, "broadcast")};
     },
     VerdictKind::mismatch,
     {},
     "wait in broadcast"},
    {"a recv that nobody sends to",
     [](auto& made) {
         return Look{made.meets(0, "recv"), made.meets(1), made.meets(2), made.meets(3)};
     },
     VerdictKind::mismatch,
     {0},
     "rank 0 (gpu06) waits in recv"},
    {"all in one call",
     [](auto& made) {
         return Look{made.meets(0), made.meets(1), made.meets(2), made.meets(3)};
     },
     VerdictKind::hang,
     {},
     "ranks 0-3 wait in all_reduce"},
    {"all in one call, by neighbours",
     [](auto& made) {
         return Look{made.meets(0, "all_reduce", 140, {3}), made.meets(1, "all_reduce", 140, {0}),
                     made.meets(2, "all_reduce", 140, {1}), made.meets(3, "all_reduce", 140, {2})};
     },
     VerdictKind::hang,
     {},
     "no rank is missing"},
};

std::string text_of(const Ranks& ranks) {
    std::string text;
    for (const int rank : ranks) text += std::to_string(rank) + " ";
    return text;
}

void check_way(const Way& way, Program program) {
    const HangVerdict verdict =
        judge(way.look(Observed(program)), {.quiet = std::chrono::seconds(31), .limit = {}});
    INFO(way.name << ", " << name_of(program) << ": " << verdict.sentence);
    CHECK(name_of_value(verdict.kind) == name_of_value(way.kind));
    CHECK(text_of(verdict.suspects) == text_of(way.suspects));
    CHECK(verdict.sentence.find(way.sentence) != std::string::npos);
    REQUIRE(!verdict.evidence.empty());
    CHECK(verdict.evidence[0] == "no progress for 31 s");
}

}  // namespace

TEST_CASE("verdict: each way to hang, by each kind of program") {
    for (const Way& way : kWays) {
        for (const Program program : kPrograms) {
            if (has(program, way.needs)) check_way(way, program);
        }
    }
}

TEST_CASE("verdict: all ranks are in calls") {
    for (const Way& way : kCalls) {
        for (const Program program : {Program::gloo, Program::own_backend, Program::cpp})
            check_way(way, program);
    }
}

}  // namespace ddprun

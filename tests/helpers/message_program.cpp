// A rank whose messages by tag meet with misfortune.
//
//   message_program MODE VICTIM [EPERM|ENOSYS]
//
// Modes in which the victim is killed, with four ranks: `waiting`, all wait to receive; `offered`, large
// sends wait for receives that do not come; `transfer`, large messages go to and from the victim for ever;
// `half`, the victim dies of itself when half of a large message is through. Modes in which it is stopped,
// with three: `stopped`, while it waits; `stopped-transfer`, while it sends and receives. Each prints "ready"
// when the moment may come. `check`: all sizes are sent, and "ok" printed; `secret`: so from memory that no
// other process can read, if the system has such. With an error's name, process_vm_readv ends with it.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/rank_program.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using Numbers = std::vector<std::uint64_t>;

constexpr std::size_t kLarge = std::size_t{8} << 20;
constexpr std::size_t kCount = kLarge / sizeof(std::uint64_t);
constexpr auto kLimit = std::chrono::milliseconds(200);

enum Tag : std::uint64_t { kNever, kData, kOffer, kGo, kKept, kLate, kGivenUp, kInOrder, kBeside, kAll };

struct Place {
    Communicator& comm;
    int victim;

    int role() const { return (comm.rank() - victim + comm.world_size()) % comm.world_size(); }
    int with_role(int role) const { return (victim + role) % comm.world_size(); }
};

void say(const char* what) {
    std::printf("%s\n", what);
    std::fflush(stdout);
}

void await_end_of_input() {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

void require(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

// A message by its number.
void write_numbers(Numbers& data, std::uint64_t number) {
    std::uint64_t* each = data.data();
    for (std::size_t i = 0; i < data.size(); ++i) each[i] = number * 0x9e37'79b9'7f4a'7c15 + i;
}

bool holds(const Numbers& data, std::uint64_t number) {
    const std::uint64_t* each = data.data();
    for (std::size_t i = 0; i < data.size(); ++i) {
        if (each[i] != number * 0x9e37'79b9'7f4a'7c15 + i) return false;
    }
    return true;
}

Numbers numbers(std::size_t count, std::uint64_t number) {
    Numbers data(count);
    write_numbers(data, number);
    return data;
}

void require_error(Code code, const std::vector<int>& culprits, const std::function<void()>& body) {
    try {
        body();
    } catch (const CollectiveError& error) {
        require(error.code() == code && error.culprits() == culprits,
                std::string("another error: ") + error.what());
        return;
    }
    throw std::runtime_error("no error");
}

void refuse_copies(int error) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    require(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0,
            "no filter");
    char from = 1;
    char to = 0;
    const iovec here{&to, 1};
    const iovec there{&from, 1};
    require(::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == -1 && errno == error,
            "the filter does nothing");
}

// Makes the calls after the ranks are ready, which end with the victim's death; then everything else does,
// too.
void until_death(const Place& place, const std::function<void()>& calls) {
    place.comm.barrier();
    say("ready");
    try {
        calls();
    } catch (const CollectiveError&) {
        Numbers data(kCount);
        const auto all_of = [&](int peer) { place.comm.recv_tagged(data.data(), kLarge, peer, kOffer); };
        require_error(Code::peer_died, {place.victim}, [&] { all_of(place.victim); });
        require_error(Code::peer_died, {place.victim}, [&] { all_of(Communicator::kAnySource); });
        require_error(Code::peer_died, {place.victim},
                      [&] { place.comm.send_tagged(data.data(), 8, place.victim, kNever); });
        require_error(Code::peer_died, {place.victim},
                      [&] { place.comm.send_tagged(data.data(), kLarge, place.with_role(1), kNever); });
        // It stays out of the way of those that have not heard yet.
        await_end_of_input();
        throw;
    }
}

// All end alike; throws what the last one ended with.
void wait_for_death(const Place& place, const std::vector<Work>& open) {
    for (const Work& work : open) require_error(Code::peer_died, {place.victim}, [&] { work.wait(); });
    open.back().wait();
}

void waiting(const Place& place) {
    Communicator& comm = place.comm;
    until_death(place, [&] {
        std::uint64_t value[3] = {};
        const int whom[] = {place.with_role(1), place.victim, Communicator::kAnySource};
        if (place.role() < 3) comm.recv_tagged(value, 8, whom[place.role()], kNever);
        wait_for_death(place, {comm.start_recv_tagged(&value[0], 8, place.with_role(1), kNever),
                               comm.start_recv_tagged(&value[1], 8, place.victim, kNever),
                               comm.start_recv_tagged(&value[2], 8, Communicator::kAnySource, kNever)});
    });
}

void offered(const Place& place) {
    Communicator& comm = place.comm;
    const Numbers data(kCount);
    std::uint64_t value = 0;
    Work offer;
    if (place.role() == 0) {
        for (int role = 1; role < 4; ++role)
            offer = comm.start_send_tagged(data.data(), kLarge, place.with_role(role), kOffer);
    }
    until_death(place, [&] {
        if (place.role() == 0) comm.recv_tagged(&value, 8, place.with_role(1), kNever);
        if (place.role() == 1) comm.send_tagged(data.data(), kLarge, place.victim, kData);
        if (place.role() == 2) comm.recv_tagged(&value, 8, place.victim, kNever);
        wait_for_death(place, {comm.start_send_tagged(data.data(), kLarge, place.victim, kData),
                               comm.start_send_tagged(data.data(), 200'000, place.victim, kData),
                               comm.start_send_tagged(data.data(), kLarge, place.with_role(1), kData)});
    });
}

void transfer(const Place& place) {
    Communicator& comm = place.comm;
    const Numbers out(kCount);
    Numbers in(kCount);
    Numbers more(kCount);
    until_death(place, [&] {
        while (true) {
            const int victim = place.victim;
            if (place.role() == 1) comm.recv_tagged(in.data(), kLarge, victim, kData);
            if (place.role() == 2) comm.send_tagged(out.data(), kLarge, victim, kData);
            if (place.role() == 3) comm.start_send_tagged(out.data(), kLarge, victim, kOffer).wait();
            if (place.role() != 0) continue;
            const Work open[] = {
                comm.start_send_tagged(out.data(), kLarge, place.with_role(1), kData),
                comm.start_recv_tagged(in.data(), kLarge, place.with_role(2), kData),
                comm.start_recv_tagged(more.data(), kLarge, Communicator::kAnySource, kOffer)};
            for (const Work& work : open) work.wait();
        }
    });
}

void half(const Place& place) {
    Communicator& comm = place.comm;
    void* data = ::mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(data != MAP_FAILED &&
                ::mprotect(static_cast<std::byte*>(data) + kLarge / 2, kLarge / 2, PROT_NONE) == 0,
            "no memory");
    // A thread that has all signals blocked ends it as well.
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    if (place.role() == 0) std::signal(SIGSEGV, [](int) { ::kill(::getpid(), SIGKILL); });
    Numbers in(kCount);
    until_death(place, [&] {
        if (place.role() == 0) comm.send_tagged(data, kLarge, place.with_role(1), kData);
        if (place.role() == 1) comm.recv_tagged(in.data(), kLarge, place.victim, kData);
        if (place.role() == 2) comm.recv_tagged(in.data(), kLarge, Communicator::kAnySource, kNever);
        comm.recv_tagged(in.data(), kLarge, place.with_role(1), kNever);
    });
}

// Every rank to every other one, and to itself.
void exchange(Communicator& comm, const std::vector<std::size_t>& counts) {
    const int n = comm.world_size();
    for (const bool receives_first : {false, true}) {
        for (const std::size_t count : counts) {
            std::vector<Numbers> in(static_cast<std::size_t>(n), Numbers(count));
            const Numbers out = numbers(count, static_cast<std::uint64_t>(comm.rank()) + 1);
            std::vector<Work> open;
            const auto receive = [&] {
                for (int peer = 0; peer < n; ++peer)
                    open.push_back(comm.start_recv_tagged(in[static_cast<std::size_t>(peer)].data(),
                                                          8 * count, peer, kAll));
            };
            if (receives_first) receive();
            for (int peer = 0; peer < n; ++peer)
                open.push_back(comm.start_send_tagged(out.data(), 8 * count, peer, kAll));
            if (!receives_first) receive();
            for (const Work& work : open) work.wait();
            for (int peer = 0; peer < n; ++peer)
                require(holds(in[static_cast<std::size_t>(peer)], static_cast<std::uint64_t>(peer) + 1),
                        "wrong bytes of " + std::to_string(8 * count));
        }
    }
}

void give_up(const Place& place) {
    Communicator& comm = place.comm;
    const int whom = place.victim;
    std::uint64_t value = 0;
    const Numbers wrong = numbers(kCount, 77);
    const auto times_out = [&](const std::vector<int>& culprits, const std::function<void()>& body) {
        require_error(Code::timed_out, culprits, body);
    };
    for (std::uint64_t i = 0; i < 3; ++i) comm.send_tagged(&i, 8, whom, kInOrder);
    times_out({whom}, [&] { comm.recv_tagged(&value, 8, whom, kLate, kLimit); });
    times_out({}, [&] { comm.recv_tagged(&value, 8, Communicator::kAnySource, kLate, kLimit); });
    times_out({whom}, [&] { comm.send_tagged(wrong.data(), kLarge, whom, kGivenUp, kLimit); });
    const Work receive = comm.start_recv_tagged(&value, 8, whom, kLate, kLimit);
    const Work send = comm.start_send_tagged(wrong.data(), kLarge, whom, kGivenUp, kLimit);
    times_out({whom}, [&] { receive.wait(); });
    times_out({whom}, [&] { send.wait(); });
    require(comm.status().ok(), "a limit has ended the communicator");
}

void stopped(const Place& place) {
    Communicator& comm = place.comm;
    const int others[] = {place.with_role(1), place.with_role(2)};
    std::uint64_t value = 0;
    Numbers in(kCount);
    if (place.role() == 0) {
        comm.barrier();
        say("ready");
        for (const int peer : others) comm.recv_tagged(&value, 8, peer, kGo);
        for (const int peer : others) {
            for (std::uint64_t i = 0; i < 3; ++i) {
                comm.recv_tagged(&value, 8, peer, kInOrder);
                require(value == i, "the order of what was sent meanwhile");
            }
            comm.recv_tagged(in.data(), kLarge, peer, kGivenUp);
            require(holds(in, 78), "a message that was given up");
            comm.send_tagged(&(value = 5), 8, peer, kLate);
            comm.send_tagged(numbers(kCount, 79).data(), kLarge, peer, kKept);
        }
    } else {
        Numbers kept(kCount);
        const Work open = comm.start_recv_tagged(kept.data(), kLarge, place.victim, kKept);
        comm.barrier();
        say("ready");
        await_end_of_input();
        give_up(place);
        // Those that run are not held up.
        const int other = place.with_role(3 - place.role());
        const Numbers out = numbers(kCount, static_cast<std::uint64_t>(comm.rank()));
        const Work send = comm.start_send_tagged(out.data(), kLarge, other, kBeside);
        comm.recv_tagged(in.data(), kLarge, other, kBeside);
        send.wait();
        require(holds(in, static_cast<std::uint64_t>(other)), "wrong bytes beside");
        require(!open.test(), "a message came from nowhere");
        say("limits passed");
        // It may go on before the victim does: nothing of this has a limit.
        comm.send_tagged(&value, 8, place.victim, kGo);
        comm.send_tagged(numbers(kCount, 78).data(), kLarge, place.victim, kGivenUp);
        require(comm.recv_tagged(&value, 8, Communicator::kAnySource, kLate) == place.victim && value == 5,
                "the late one");
        open.wait();
        require(holds(kept, 79), "wrong bytes of the one that went on");
    }
    exchange(comm, {1, 1152, kCount});
    comm.barrier();
    say("ok");
}

// Of messages that count up, some left out.
void require_later(const Numbers& data, std::uint64_t& last, const char* what) {
    const std::uint64_t number = data[0] * 0xf1de'83e1'9937'733d;
    require(number > last && holds(data, number), what);
    last = number;
}

void stopped_transfer(const Place& place) {
    constexpr std::uint64_t kLast = 1'000'000'000;
    Communicator& comm = place.comm;
    Numbers data(kCount);
    std::uint64_t number = 0;
    comm.barrier();
    say("ready");
    auto limit = kLimit;
    const auto passes_in_time = [&](const std::function<void()>& call) {
        try {
            call();
            return true;
        } catch (const CollectiveError& error) {
            require(error.code() == Code::timed_out && error.culprits() == std::vector{place.victim},
                    error.what());
            say("timed out");
            await_end_of_input();
            limit = std::chrono::milliseconds(-1);
            return false;
        }
    };
    if (place.role() == 1) {
        do {
            write_numbers(data, ++number);
        } while (passes_in_time([&] { comm.send_tagged(data.data(), kLarge, place.victim, kData, limit); }));
        write_numbers(data, kLast);
        comm.send_tagged(data.data(), kLarge, place.victim, kData);
    } else if (place.role() == 2) {
        while (number < kLast) {
            if (passes_in_time([&] { comm.recv_tagged(data.data(), kLarge, place.victim, kOffer, limit); }))
                require_later(data, number, "wrong bytes from the one that was stopped");
        }
    } else {
        while (number < kLast) {
            comm.recv_tagged(data.data(), kLarge, place.with_role(1), kData);
            require_later(data, number, "wrong bytes to the one that was stopped");
            comm.send_tagged(data.data(), kLarge, place.with_role(2), kOffer);
        }
    }
    exchange(comm, {1, 1152, kCount});
    comm.barrier();
    say("ok");
}

// 9 KiB, 1 MiB, 8 MiB.
void check(const Place& place) {
    exchange(place.comm, {1, 1152, 131'072, kCount});
    place.comm.barrier();
    say("ok");
}

void secret(const Place& place) {
    Communicator& comm = place.comm;
    constexpr std::size_t kSecret = std::size_t{1} << 20;
    const int descriptor = static_cast<int>(::syscall(SYS_memfd_secret, 0));
    if (descriptor < 0 || ::ftruncate(descriptor, kSecret) != 0) return say("unavailable");
    void* data = ::mmap(nullptr, kSecret, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) return say("unavailable");
    const auto number = static_cast<std::uint64_t>(comm.rank()) + 1;
    auto* out = static_cast<std::uint64_t*>(data);
    const Numbers wanted = numbers(kSecret / 8, number);
    std::copy(wanted.begin(), wanted.end(), out);
    Numbers in(kSecret / 8);
    const int n = comm.world_size();
    for (int i = 0; i < 3; ++i) {
        const Work send = comm.start_send_tagged(out, kSecret, (comm.rank() + 1) % n, kData);
        const int from = comm.recv_tagged(in.data(), kSecret, Communicator::kAnySource, kData);
        send.wait();
        require(holds(in, static_cast<std::uint64_t>(from) + 1), "wrong bytes");
    }
    check(place);
}

void run(const std::vector<std::string>& arguments) {
    static constexpr struct {
        const char* name;
        void (*body)(const Place&);
    } kModes[] = {{"waiting", waiting}, {"offered", offered}, {"transfer", transfer},
                  {"half", half},       {"stopped", stopped}, {"stopped-transfer", stopped_transfer},
                  {"check", check},     {"secret", secret}};
    if (arguments.size() > 2) refuse_copies(arguments[2] == "EPERM" ? EPERM : ENOSYS);
    Communicator comm = Communicator::from_env();
    for (const auto& mode : kModes) {
        if (arguments.at(0) == mode.name) return mode.body({comm, std::stoi(arguments.at(1))});
    }
    throw std::runtime_error("no such mode");
}

}  // namespace

int main(int argc, char** argv) { return run_rank_program(argc, argv, run); }

// Messages between simulated ranks, whose threads take turns in an order by lot: nothing stands still, and
// nothing is wrong. DDPRUN_SEED is the seed of a run that is to be had again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/collectives/messages/simulated_ranks.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::message_simulation;

namespace {

using Code = CollectiveErrorCode;
using Bytes = std::vector<unsigned char>;
using Started = std::shared_ptr<MessageOperation>;

constexpr std::chrono::milliseconds kNever = std::chrono::hours(1);
constexpr std::chrono::milliseconds kAtOnce{0};

void expect(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

MessageRequest sending(const Bytes& bytes, int peer, std::uint64_t tag,
                       std::chrono::milliseconds timeout = kNever) {
    return {true, bytes.data(), nullptr, bytes.size(), peer, tag, timeout};
}
MessageRequest receiving(Bytes& bytes, int peer, std::uint64_t tag,
                         std::chrono::milliseconds timeout = kNever) {
    return {false, nullptr, bytes.data(), bytes.size(), peer, tag, timeout};
}

Started start(Messenger& messenger, const MessageRequest& request) {
    auto operation = std::make_shared<MessageOperation>(request);
    messenger.start(*operation, operation);
    return operation;
}

void expect_end(Messenger& messenger, const MessageRequest& request, Code code) {
    try {
        messenger.run(request);
    } catch (const CollectiveError& error) {
        return expect(error.code() == code, error.what());
    }
    throw std::runtime_error(describe(request) + " has come right");
}

// One run: the ranks, and a barrier of them that no messenger has a part in.
struct Run {
    Run(unsigned seed, const std::string& hosts)
        : simulation(seed), ranks(simulation, hosts), open(hosts.size()) {}

    Messenger& messenger(int rank) { return ranks.messenger(rank); }
    void thread(int rank, const std::string& name, std::function<void()> body) {
        simulation.thread(rank, name + " of " + std::to_string(rank), std::move(body));
    }
    // The body of each rank, which then ends its messenger.
    void each(const std::function<void(int)>& body) {
        for (int rank = 0; rank < ranks.size(); ++rank) {
            thread(rank, "caller", [this, body, rank] {
                body(rank);
                --open;
                simulation.wait_until([this] { return open == 0; });
                ranks.leave(rank);
            });
        }
    }
    void meet() {
        const std::size_t turn = met++ / static_cast<std::size_t>(ranks.size());
        simulation.wait_until(
            [this, turn] { return met >= (turn + 1) * static_cast<std::size_t>(ranks.size()); });
    }
    // No messenger knows that somebody waits for it.
    void come_to_end(const Started& operation) {
        simulation.waits_for(describe(operation->request));
        simulation.wait_until([&] { return operation->has_ended(); });
        if (operation->error) throw CollectiveError(*operation->error);
    }
    void end(int rank, const Started& operation) {
        simulation.waits_for(describe(operation->request));
        if (simulation.once_in(2)) messenger(rank).await(*operation, Deadline::max());
        come_to_end(operation);
    }

    Simulation simulation;
    SimulatedRanks ranks;
    std::size_t open;
    std::size_t met = 0;
};

// Some runs, each with a seed of its own.
void try_seeds(int runs, const std::vector<std::string>& layouts, const std::function<void(Run&)>& prepare) {
    const char* given = std::getenv("DDPRUN_SEED");
    const auto first = given != nullptr ? static_cast<unsigned>(std::atol(given)) : std::random_device{}();
    for (int i = 0; i < (given != nullptr ? 1 : runs); ++i) {
        for (const std::string& hosts : layouts) {
            const unsigned seed = first + static_cast<unsigned>(i);
            auto run = std::make_unique<Run>(seed, hosts);
            prepare(*run);
            const std::string fault = run->simulation.run();
            INFO("DDPRUN_SEED=" << seed << ", ranks on hosts " << hosts);
            // What stands still cannot be taken away.
            if (!fault.empty()) static_cast<void>(run.release());
            REQUIRE(fault == "");
        }
    }
}

const std::vector<std::string> kLayouts{"aa", "ab", "aab", "aaa", "abc"};

struct Planned {
    int from;
    int to;
    std::uint64_t tag;
    Bytes bytes;
};

std::vector<Planned> plan_messages(Simulation& simulation, int ranks, int count) {
    constexpr std::size_t kSizes[] = {0, 1, 8, 33, 4096, 8192, 8193, 16'385, 40'000};
    std::vector<Planned> plan;
    for (int i = 0; i < count; ++i) {
        Planned one{static_cast<int>(simulation.draw(static_cast<std::size_t>(ranks))),
                    static_cast<int>(simulation.draw(static_cast<std::size_t>(ranks))), simulation.draw(5),
                    Bytes(kSizes[simulation.draw(std::size(kSizes))])};
        for (auto& byte : one.bytes) byte = static_cast<unsigned char>(simulation.draw(256));
        plan.push_back(std::move(one));
    }
    return plan;
}

// What one thread of a rank has to do with the tags that are its own.
void exchange(Run& run, const std::vector<Planned>& plan, int rank, std::uint64_t which, std::uint64_t of) {
    Messenger& messenger = run.messenger(rank);
    std::vector<const Planned*> sends;
    std::vector<const Planned*> receives;
    for (const Planned& one : plan) {
        if (one.tag % of != which) continue;
        if (one.from == rank) sends.push_back(&one);
        if (one.to == rank) receives.push_back(&one);
    }
    std::vector<Bytes> in;
    for (const Planned* one : receives) in.emplace_back(one->bytes.size());
    std::vector<Started> open;
    Bytes never(8);
    for (std::size_t s = 0, r = 0; s < sends.size() || r < receives.size();) {
        if (r == receives.size() || (s < sends.size() && run.simulation.once_in(2))) {
            open.push_back(start(messenger, sending(sends[s]->bytes, sends[s]->to, sends[s]->tag)));
            ++s;
        } else {
            open.push_back(start(messenger, receiving(in[r], receives[r]->from, receives[r]->tag)));
            ++r;
        }
        if (run.simulation.once_in(8)) messenger.test();
        if (run.simulation.once_in(8)) run.simulation.yield();
        if (run.simulation.once_in(16))
            expect_end(messenger, receiving(never, kAnyRank, 99, kAtOnce), Code::timed_out);
    }
    while (!open.empty()) {
        const std::size_t one = run.simulation.draw(open.size());
        run.end(rank, open[one]);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(one));
    }
    for (std::size_t r = 0; r < receives.size(); ++r) expect(in[r] == receives[r]->bytes, "the bytes");
}

// All that was received is given back: so much goes at once again, though nobody receives it.
void expect_credit(Run& run, int rank) {
    constexpr int kProbes = 20;
    constexpr std::uint64_t kProbe = 100;
    constexpr std::uint64_t kOver = 101;
    Messenger& messenger = run.messenger(rank);
    const Bytes probe(8192);
    Bytes came(8192);
    Bytes none;
    std::vector<Started> open;
    for (int peer = 0; peer < run.ranks.size(); ++peer) {
        if (peer != rank) open.push_back(start(messenger, receiving(none, peer, kOver)));
    }
    run.meet();
    // Credit comes as messages do.
    run.simulation.wait_until([&] { return run.ranks.is_quiet(); });
    run.meet();
    for (int i = 0; i < kProbes; ++i) {
        for (int peer = 0; peer < run.ranks.size(); ++peer) {
            if (peer != rank) messenger.run(sending(probe, peer, kProbe));
        }
    }
    run.meet();
    for (int i = 0; i < kProbes * (run.ranks.size() - 1); ++i)
        messenger.run(receiving(came, kAnyRank, kProbe));
    for (int peer = 0; peer < run.ranks.size(); ++peer) {
        if (peer != rank) messenger.run(sending(none, peer, kOver));
    }
    for (const Started& one : open) run.end(rank, one);
}

}  // namespace

TEST_CASE("any messages of simulated ranks come, by whoever waits or nobody, and give their credit back",
          "[messages][simulated]") {
    constexpr std::uint64_t kThreads = 2;
    try_seeds(20, kLayouts, [](Run& run) {
        const auto plan =
            std::make_shared<std::vector<Planned>>(plan_messages(run.simulation, run.ranks.size(), 120));
        // Some systems refuse to copy from others' memory, and some memory cannot be read.
        const bool refuses = run.simulation.once_in(4);
        run.ranks.let_copies_be([&run, refuses] {
            if (refuses) return Copied::refused;
            return run.simulation.once_in(10) ? Copied::unreadable : Copied::all;
        });
        run.each([&run, plan](int rank) {
            std::uint64_t busy = kThreads;
            for (std::uint64_t which = 0; which < kThreads; ++which) {
                run.thread(rank, "thread " + std::to_string(which), [&run, &busy, plan, rank, which] {
                    exchange(run, *plan, rank, which, kThreads);
                    --busy;
                });
            }
            run.simulation.wait_until([&busy] { return busy == 0; });
            // What was kept at first is given back, too.
            for (int i = 0; i < 2; ++i) {
                run.meet();
                expect_credit(run, rank);
            }
        });
    });
}

TEST_CASE("what simulated ranks start comes though nobody waits for it, also when all have been quiet",
          "[messages][simulated]") {
    try_seeds(40, kLayouts, [](Run& run) {
        const auto plans = std::make_shared<std::vector<std::vector<Planned>>>();
        for (int i = 0; i < 4; ++i) plans->push_back(plan_messages(run.simulation, run.ranks.size(), 1 + i));
        run.each([&run, plans](int rank) {
            for (const std::vector<Planned>& plan : *plans) {
                std::vector<Started> open;
                std::vector<Bytes> in(plan.size());
                for (std::size_t i = 0; i < plan.size(); ++i) {
                    const Planned& one = plan[i];
                    in[i].resize(one.bytes.size());
                    if (one.to == rank)
                        open.push_back(start(run.messenger(rank), receiving(in[i], one.from, i)));
                    if (one.from == rank)
                        open.push_back(start(run.messenger(rank), sending(one.bytes, one.to, i)));
                    if (run.simulation.once_in(2)) run.simulation.yield();
                }
                for (const Started& one : open) run.come_to_end(one);
                run.meet();
            }
        });
    });
}

TEST_CASE("blocking calls go round simulated ranks, while all others sleep", "[messages][simulated]") {
    try_seeds(160, kLayouts, [](Run& run) {
        const std::size_t size = run.simulation.once_in(2) ? 8 : 40'000;
        run.each([&run, size](int rank) {
            Messenger& messenger = run.messenger(rank);
            const int ranks = run.ranks.size();
            for (int round = 0; round < 8; ++round) {
                Bytes bytes(size, static_cast<unsigned char>(round));
                // Some come while nobody waits for them.
                run.simulation.linger();
                if (rank == 0) messenger.run(sending(bytes, 1, 1));
                bytes.assign(size, 99);
                messenger.run(receiving(bytes, (rank + ranks - 1) % ranks, 1));
                expect(bytes == Bytes(size, static_cast<unsigned char>(round)), "the bytes");
                if (rank != 0) messenger.run(sending(bytes, (rank + 1) % ranks, 1));
            }
        });
    });
}

TEST_CASE("threads of a simulated rank wake each other, and hide nothing from what was started",
          "[messages][simulated]") {
    try_seeds(160, kLayouts, [](Run& run) {
        const bool is_quiet = run.simulation.once_in(2);  // else others wake them, too
        run.each([&run, is_quiet](int rank) {
            Messenger& messenger = run.messenger(rank);
            const int ranks = run.ranks.size();
            constexpr int kRounds = 4;
            int busy = 2;
            // The one waits for the other, now and then.
            run.thread(rank, "receiver", [&] {
                for (int round = 0; round < kRounds; ++round) {
                    Bytes in(40'000);
                    run.simulation.linger();
                    messenger.run(receiving(in, run.simulation.once_in(2) ? rank : kAnyRank, 1));
                }
                --busy;
            });
            run.thread(rank, "sender", [&] {
                for (int round = 0; round < kRounds; ++round) {
                    run.simulation.linger();
                    messenger.run(sending(Bytes(40'000), rank, 1));
                }
                --busy;
            });
            for (int round = 0; !is_quiet && round < kRounds; ++round) {
                const Bytes out(150'000, static_cast<unsigned char>(round));
                Bytes in(out.size());
                const Started open[] = {start(messenger, receiving(in, (rank + ranks - 1) % ranks, 2)),
                                        start(messenger, sending(out, (rank + 1) % ranks, 2))};
                run.simulation.linger();
                for (const Started& one : open) run.come_to_end(one);
                expect(in == out, "the bytes");
            }
            run.simulation.wait_until([&] { return busy == 0; });
        });
    });
}

TEST_CASE("a thread of a simulated rank waits no longer than it will", "[messages][simulated]") {
    try_seeds(40, kLayouts, [](Run& run) {
        run.each([&run](int rank) {
            Messenger& messenger = run.messenger(rank);
            const int peer = (rank + 1) % run.ranks.size();
            Bytes in(8);
            const Started receive = start(messenger, receiving(in, kAnyRank, 1));
            messenger.await(*receive, Deadline::clock::now());
            expect(!receive->has_ended(), "nothing has come");
            run.meet();
            messenger.run(sending(Bytes(8), peer, 1));
            run.end(rank, receive);
        });
    });
}

TEST_CASE("a simulated rank that receives one message has room again for all that had come",
          "[messages][simulated]") {
    constexpr int kCells = 64;
    try_seeds(100, {"aa"}, [](Run& run) {
        const int before = 1 + static_cast<int>(run.simulation.draw(kCells));
        const int behind = 1 + static_cast<int>(run.simulation.draw(kCells));
        run.each([&run, before, behind](int rank) {
            Messenger& messenger = run.messenger(rank);
            const auto pass = [&](int begin, int end) {
                for (int i = begin; i < end; ++i) {
                    Bytes bytes(8, static_cast<unsigned char>(i));
                    messenger.run(rank == 0 ? sending(bytes, 1, 0) : receiving(bytes, 0, 0));
                    expect(bytes == Bytes(8, static_cast<unsigned char>(i)), "the order");
                }
            };
            if (rank == 0) pass(0, before);
            run.meet();
            if (rank == 1) pass(0, 1);
            run.meet();
            // The other one does nothing meanwhile.
            if (rank == 0) pass(before, before + behind);
            run.meet();
            if (rank == 1) pass(1, before + behind);
        });
    });
}

TEST_CASE("messages of simulated ranks that are there when they are received give their credit back",
          "[messages][simulated]") {
    try_seeds(5, {"aa"}, [](Run& run) {
        run.each([&run](int rank) {
            for (int i = 0; i < 60; ++i) {
                Bytes bytes(8192);
                if (rank == 0) run.messenger(0).run(sending(bytes, 1, 1));
                run.meet();
                if (rank == 1) run.messenger(1).run(receiving(bytes, 0, 1));
                run.meet();
            }
        });
    });
}

TEST_CASE("a simulated rank keeps offers without end, if they are received", "[messages][simulated]") {
    try_seeds(1, {"aa", "ab"}, [](Run& run) {
        run.each([&run](int rank) {
            Bytes bytes(20'000);
            Bytes none;
            for (int round = 0; round < 2; ++round) {
                std::vector<Started> open;
                for (std::uint32_t i = 0; rank == 0 && i < kMessageOffers; ++i)
                    open.push_back(start(run.messenger(0), sending(bytes, 1, 1)));
                rank == 0 ? run.messenger(0).run(sending(none, 1, 2))
                          : run.messenger(1).run(receiving(none, 0, 2));
                for (std::uint32_t i = 0; rank == 1 && i < kMessageOffers; ++i)
                    run.messenger(1).run(receiving(bytes, 0, 1));
                for (const Started& one : open) run.end(0, one);
            }
        });
    });
}

TEST_CASE("a simulated rank that leaves gives back what was offered to it", "[messages][simulated]") {
    try_seeds(5, {"aaa", "abb"}, [](Run& run) {
        const auto more = 1 + run.simulation.draw(50);
        run.each([&run, more](int rank) {
            Messenger& messenger = run.messenger(rank);
            Bytes bytes(20'000);
            Bytes few(8);
            if (rank == 0) {
                std::vector<Started> open;
                for (std::uint32_t i = 0; i < kMessageOffers; ++i)
                    open.push_back(start(messenger, sending(bytes, 1, 1)));
                messenger.run(sending(few, 1, 2));
                run.simulation.wait_until([&] {
                    return std::ranges::all_of(open, [](const Started& one) { return one->has_ended(); });
                });
                for (const Started& one : open)
                    expect(one->error && one->error->code() == Code::peer_left, "the other has left");
                for (std::size_t i = 0; i < more; ++i) messenger.run(sending(bytes, 2, 3));
            }
            if (rank == 1) messenger.run(receiving(few, 0, 2));
            if (rank == 1) run.ranks.leave(1);
            for (std::size_t i = 0; rank == 2 && i < more; ++i) messenger.run(receiving(bytes, 0, 3));
        });
    });
}

TEST_CASE("a limit passes though the bytes of a simulated rank that is stopped were copied in vain",
          "[messages][simulated]") {
    try_seeds(100, {"aa"}, [](Run& run) {
        run.ranks.let_copies_be([] { return Copied::unreadable; });
        run.each([&run](int rank) {
            Messenger& messenger = run.messenger(rank);
            Bytes bytes(20'000);
            Bytes few(8);
            if (rank == 1) {
                const Started send = start(messenger, sending(bytes, 0, 1));
                messenger.run(sending(few, 0, 2));
                run.meet();
                run.end(1, send);
                return;
            }
            messenger.run(receiving(few, 1, 2));
            run.meet();
            run.simulation.stop(1);
            const Started receive = start(messenger, receiving(bytes, 1, 1, kAtOnce));
            bool waits = true;
            run.thread(0, "waiter", [&] {
                messenger.await(*receive, Deadline::max());
                waits = false;
            });
            run.simulation.wait_until([&] { return receive->has_ended() && !waits; });
            expect(receive->error && receive->error->code() == Code::timed_out, "the limit has passed");
            run.simulation.go_on(1);
        });
    });
}

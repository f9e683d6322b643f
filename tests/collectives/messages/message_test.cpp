// Messages by tag. Ranks are threads, in the memory of one host, on hosts of their own, and both.
#include <algorithm>
#include <atomic>
#include <barrier>

#include <cstdint>
#include <latch>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/shm/message_layout.hpp"
#include "rendezvous/base/deadline.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;
using Bytes = std::vector<unsigned char>;

constexpr auto kSoon = std::chrono::milliseconds(50);

Bytes pattern(std::size_t size, std::uint64_t seed) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<unsigned char>((i * 31 + seed * 7 + (i >> 9)) & 0xff);
    return bytes;
}

const std::vector<Hosts>& layouts() {
    static const std::vector<Hosts> all{{"a", "a"}, {"a", "b"}, {"a", "a", "b", "b"}};
    return all;
}

const std::vector<std::size_t> kSizes{0, 1, 8, 32, 33, 64, 4096, 8192, 8193, 100'000, 131'072, 3'000'001};

}  // namespace

TEST_CASE("messages of every size arrive, whoever comes first", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            const int n = comm.world_size();
            for (const bool receives_first : {false, true}) {
                for (const std::size_t size : kSizes) {
                    // 64 bits of a tag count.
                    const std::uint64_t tag = (std::uint64_t{1} << 63) + size;
                    std::vector<Work> open;
                    std::vector<Bytes> out;
                    std::vector<Bytes> in(static_cast<std::size_t>(n), Bytes(size));
                    for (int peer = 0; peer < n; ++peer)
                        out.push_back(pattern(size, static_cast<std::uint64_t>(comm.rank() * n + peer)));
                    const auto receive = [&] {
                        for (int peer = 0; peer < n; ++peer)
                            open.push_back(comm.start_recv_tagged(in[static_cast<std::size_t>(peer)].data(),
                                                                  size, peer, tag));
                    };
                    // To itself as well.
                    const auto send = [&] {
                        for (int peer = 0; peer < n; ++peer)
                            open.push_back(comm.start_send_tagged(out[static_cast<std::size_t>(peer)].data(),
                                                                  size, peer, tag));
                    };
                    receives_first ? receive() : send();
                    receives_first ? send() : receive();
                    for (const Work& work : open) work.wait();
                    for (int peer = 0; peer < n; ++peer) {
                        expect(in[static_cast<std::size_t>(peer)] ==
                                   pattern(size, static_cast<std::uint64_t>(peer * n + comm.rank())),
                               "the bytes of " + std::to_string(size));
                        const auto& work = open[static_cast<std::size_t>((receives_first ? 0 : n) + peer)];
                        expect(work.source() == peer, "the source");
                    }
                }
            }
        });
    }
}

TEST_CASE("blocking calls go back and forth, also beside collectives", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            if (comm.rank() < 2) {
                for (int i = 0; i < 300; ++i) {
                    std::uint64_t value = static_cast<std::uint64_t>(i);
                    if (comm.rank() == 0) comm.send_tagged(&value, sizeof(value), 1, 7);
                    if (comm.rank() == 1)
                        expect(comm.recv_tagged(&value, sizeof(value), 0, 7) == 0, "the source");
                    if (comm.rank() == 1) comm.send_tagged(&value, sizeof(value), 0, 8);
                    if (comm.rank() == 0)
                        comm.recv_tagged(&value, sizeof(value), Communicator::kAnySource, 8);
                    expect(value == static_cast<std::uint64_t>(i), "the value");
                }
            }
            // A receive that was made before collectives is met after them.
            const int n = comm.world_size();
            Bytes in(200'000);
            Work early = comm.start_recv_tagged(in.data(), in.size(), (comm.rank() + n - 1) % n, 9);
            for (int i = 0; i < 3; ++i) comm.barrier();
            const Bytes out = pattern(in.size(), static_cast<std::uint64_t>(comm.rank()));
            comm.send_tagged(out.data(), out.size(), (comm.rank() + 1) % n, 9);
            early.wait();
            expect(in == pattern(in.size(), static_cast<std::uint64_t>((comm.rank() + n - 1) % n)),
                   "the bytes");
        });
    }
}

TEST_CASE("messages that nobody receives yet are kept within bounds, and none is lost", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            constexpr int kMany = 6000;
            std::vector<std::uint64_t> values(kMany);
            std::vector<Work> open;
            if (comm.rank() == 0) {
                for (int i = 0; i < kMany; ++i) {
                    values[static_cast<std::size_t>(i)] = static_cast<std::uint64_t>(i);
                    open.push_back(comm.start_send_tagged(&values[static_cast<std::size_t>(i)], 8, 1,
                                                          static_cast<std::uint64_t>(i % 3)));
                }
            }
            comm.barrier();
            if (comm.rank() == 1) {
                // The last tag first.
                for (const int tag : {2, 0, 1}) {
                    for (int i = tag; i < kMany; i += 3) {
                        std::uint64_t value = 0;
                        comm.recv_tagged(&value, 8, 0, static_cast<std::uint64_t>(tag));
                        expect(value == static_cast<std::uint64_t>(i), "the order");
                    }
                }
            }
            for (const Work& work : open) work.wait();
            comm.barrier();
        });
    }
}

TEST_CASE("any order of any messages, by several threads, comes out right", "[messages]") {
    const auto seed = std::random_device{}();
    for (const Hosts& hosts : layouts()) {
        CAPTURE(seed, hosts.size());
        constexpr int kThreads = 3;
        constexpr int kMessages = 400;
        struct Planned {
            int from;
            int to;
            std::uint64_t tag;
            std::size_t size;
            std::uint64_t content;
        };
        const int n = static_cast<int>(hosts.size());
        std::mt19937 random(seed);
        std::vector<Planned> plan;
        for (int i = 0; i < kMessages; ++i) {
            const std::size_t large = std::size_t{1} << (random() % 20);
            plan.push_back({static_cast<int>(random() % static_cast<unsigned>(n)),
                            static_cast<int>(random() % static_cast<unsigned>(n)), random() % 9,
                            random() % (large + 1), random()});
        }
        run_on_hosts(hosts, [&](Communicator& comm) {
            std::vector<std::string> wrong(kThreads);
            std::vector<std::thread> threads;
            for (int t = 0; t < kThreads; ++t) {
                threads.emplace_back([&, t] {
                    try {
                        std::mt19937 own(seed + static_cast<unsigned>(comm.rank() * kThreads + t));
                        std::vector<const Planned*> sends;
                        std::vector<const Planned*> receives;
                        // A tag is one thread's, so that its order is known.
                        for (const Planned& one : plan) {
                            if (static_cast<int>(one.tag % kThreads) != t) continue;
                            if (one.from == comm.rank()) sends.push_back(&one);
                            if (one.to == comm.rank()) receives.push_back(&one);
                        }
                        std::vector<Bytes> out;
                        std::vector<Bytes> in;
                        for (const Planned* one : sends) out.push_back(pattern(one->size, one->content));
                        for (const Planned* one : receives) in.emplace_back(one->size);
                        std::vector<Work> open;
                        for (std::size_t s = 0, r = 0; s < sends.size() || r < receives.size();) {
                            const bool send = r == receives.size() || (s < sends.size() && own() % 2 == 0);
                            if (send) {
                                open.push_back(comm.start_send_tagged(out[s].data(), out[s].size(),
                                                                      sends[s]->to, sends[s]->tag));
                                ++s;
                            } else {
                                open.push_back(comm.start_recv_tagged(in[r].data(), in[r].size(),
                                                                      receives[r]->from, receives[r]->tag));
                                ++r;
                            }
                            if (own() % 16 == 0) static_cast<void>(open[own() % open.size()].test());
                        }
                        for (const Work& work : open) work.wait();
                        for (std::size_t r = 0; r < receives.size(); ++r)
                            expect(in[r] == pattern(receives[r]->size, receives[r]->content), "the bytes");
                    } catch (const std::exception& error) {
                        wrong[static_cast<std::size_t>(t)] = error.what();
                    }
                });
            }
            for (std::thread& thread : threads) thread.join();
            for (const std::string& text : wrong) expect(text.empty(), text);
            comm.barrier();
        });
    }
}

TEST_CASE("a receive from any rank takes what came first", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            const int n = comm.world_size();
            for (const std::size_t size : {std::size_t{8}, std::size_t{50'000}}) {
                const Bytes mine = pattern(size, static_cast<std::uint64_t>(comm.rank()));
                if (comm.rank() != 0) {
                    for (int i = 0; i < 10; ++i) comm.send_tagged(mine.data(), size, 0, 3);
                } else {
                    std::map<int, int> came;
                    for (int i = 0; i < 10 * (n - 1); ++i) {
                        Bytes theirs(size);
                        const int from = comm.recv_tagged(theirs.data(), size, Communicator::kAnySource, 3);
                        expect(theirs == pattern(size, static_cast<std::uint64_t>(from)), "the bytes");
                        ++came[from];
                    }
                    for (int peer = 1; peer < n; ++peer) expect(came[peer] == 10, "ten of each");
                }
                comm.barrier();
            }
            // Those that were kept come in the order in which they arrived.
            if (comm.rank() == 1) {
                for (std::uint64_t i = 0; i < 3; ++i) comm.send_tagged(&i, 8, 0, 4);
            }
            if (comm.rank() == 0) {
                for (std::uint64_t i = 0; i < 3; ++i) {
                    std::uint64_t value = 9;
                    comm.recv_tagged(&value, 8, Communicator::kAnySource, 4);
                    expect(value == i, "the order");
                }
            }
            comm.barrier();
        });
    }
}

TEST_CASE("what runs out of time ends alone, and leaves nothing behind", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            const int peer = comm.rank() ^ 1;
            for (const std::size_t size : {std::size_t{8}, std::size_t{1'000'000}}) {
                Bytes in(size);
                const Bytes out = pattern(size, 5);
                const auto late = expect_error(Code::timed_out, {peer},
                                               [&] { comm.recv_tagged(in.data(), size, peer, 1, kSoon); });
                expect(std::string(late.what()).find(" Timed out ") != std::string::npos, late.what());
                expect_error(Code::timed_out, {},
                             [&] { comm.recv_tagged(in.data(), size, Communicator::kAnySource, 1, kSoon); });
                Work started = comm.start_recv_tagged(in.data(), size, peer, 1, kSoon);
                expect_error(Code::timed_out, {peer}, [&] { started.wait(); });
                comm.barrier();
                if (size > 8) {
                    expect_error(Code::timed_out, {peer},
                                 [&] { comm.send_tagged(out.data(), size, peer, 1, kSoon); });
                    Work sent = comm.start_send_tagged(out.data(), size, peer, 1, kSoon);
                    expect_error(Code::timed_out, {peer}, [&] { sent.wait(); });
                }
                comm.barrier();
                // What was given up is not received in the place of what is sent now.
                const Bytes good = pattern(size, 6);
                Work send = comm.start_send_tagged(good.data(), size, peer, 1);
                comm.recv_tagged(in.data(), size, peer, 1);
                send.wait();
                expect(in == good, "the bytes");
                comm.barrier();
            }
        });
    }
}

TEST_CASE("a message of another size is that receive's error only", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            for (const std::size_t size : {std::size_t{8}, std::size_t{1'000'000}}) {
                Bytes bytes(size + 1);
                if (comm.rank() == 0) {
                    comm.send_tagged(bytes.data(), size, 1, 2);
                    comm.send_tagged(bytes.data(), size + 1, 1, 2);
                }
                if (comm.rank() == 1) {
                    const auto error = expect_error(Code::mismatch, {0},
                                                    [&] { comm.recv_tagged(bytes.data(), size + 1, 0, 2); });
                    expect(std::string(error.what()).find("rank 0 sent " + std::to_string(size)) !=
                               std::string::npos,
                           error.what());
                    comm.recv_tagged(bytes.data(), size + 1, 0, 2);
                }
            }
            comm.barrier();
        });
    }
}

TEST_CASE("a rank that leaves gives back what was offered to it", "[messages]") {
    for (const Hosts& hosts : {Hosts{"a", "a", "a"}, Hosts{"a", "b", "b"}}) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            Bytes bytes(200'000);
            if (comm.rank() == 0) {
                std::vector<Work> open;
                for (std::uint32_t i = 0; i < kMessageOffers; ++i)
                    open.push_back(comm.start_send_tagged(bytes.data(), bytes.size(), 1, 1));
                comm.send_tagged(bytes.data(), 8, 1, 2);
                for (const Work& work : open) expect_error(Code::peer_left, {1}, [&] { work.wait(); });
                comm.send_tagged(bytes.data(), bytes.size(), 2, 3, kHangGuard);
            }
            if (comm.rank() == 1) comm.recv_tagged(bytes.data(), 8, 0, 2);
            if (comm.rank() == 2) comm.recv_tagged(bytes.data(), bytes.size(), 0, 3, kHangGuard);
        });
    }
}

TEST_CASE("a started receive of what was offered before is not left lying", "[messages]") {
    run_on_hosts({"a", "a"}, [&](Communicator& comm) {
        const Deadline guard = Deadline::clock::now() + kHangGuard;
        std::uint64_t value = 0;
        Work never = comm.start_recv_tagged(&value, 8, comm.rank(), 9);
        Bytes bytes(100'000);
        // Each would wait for half a second if nobody were told.
        std::mt19937 random(static_cast<unsigned>(comm.rank()));
        for (int i = 0; i < 160; ++i) {
            Work work;
            if (comm.rank() == 0) {
                work = comm.start_send_tagged(bytes.data(), bytes.size(), 1, 1);
                comm.send_tagged(&value, 8, 1, 2);
            } else {
                comm.recv_tagged(&value, 8, 0, 2);
                let_time_pass(random);
                work = comm.start_recv_tagged(bytes.data(), bytes.size(), 0, 1);
            }
            while (!work.test()) std::this_thread::yield();
        }
        expect(!has_passed(guard), "the receives were left lying");
    });
}

TEST_CASE("no limit is too long", "[messages]") {
    run_on_hosts({"a", "a"}, [&](Communicator& comm) {
        constexpr auto kLongest = std::chrono::milliseconds::max();
        Bytes bytes(100'000);
        Work send = comm.start_send_tagged(bytes.data(), bytes.size(), comm.rank() ^ 1, 1, kLongest);
        comm.barrier();
        comm.recv_tagged(bytes.data(), bytes.size(), comm.rank() ^ 1, 1, kLongest);
        send.wait();
    });
}

TEST_CASE("a wrong message is refused, and nothing is sent", "[messages]") {
    run_on_hosts({"a", "a"}, [&](Communicator& comm) {
        std::uint64_t value = 0;
        expect_error(Code::invalid_argument, {}, [&] { comm.send_tagged(&value, 8, 2, 1); });
        expect_error(Code::invalid_argument, {}, [&] { comm.send_tagged(&value, 8, -1, 1); });
        expect_error(Code::invalid_argument, {}, [&] { comm.recv_tagged(&value, 8, -2, 1); });
        expect_error(Code::invalid_argument, {}, [&] { comm.recv_tagged(nullptr, 8, 0, 1); });
        comm.barrier();
        comm.finalize();
        expect_error(Code::invalid_argument, {}, [&] { comm.send_tagged(&value, 8, 0, 1); });
        expect_error(Code::invalid_argument, {},
                     [&] { static_cast<void>(comm.start_recv_tagged(&value, 8, 0, 1)); });
    });
}

TEST_CASE("an abort ends every message, at once", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            Bytes bytes(1'000'000);
            std::uint64_t value = 0;
            std::vector<Work> open;
            for (int peer = 0; peer < comm.world_size(); ++peer) {
                open.push_back(comm.start_recv_tagged(&value, 8, peer, 1));
                open.push_back(comm.start_send_tagged(bytes.data(), bytes.size(), peer, 2));
            }
            open.push_back(comm.start_recv_tagged(&value, 8, Communicator::kAnySource, 3));
            if (comm.rank() == 1) comm.abort("enough");
            expect_error(Code::aborted, {1}, [&] { comm.recv_tagged(&value, 8, 0, 4); });
            for (const Work& work : open) expect_error(Code::aborted, {1}, [&] { work.wait(); });
            expect_error(Code::aborted, {1}, [&] { comm.send_tagged(&value, 8, 0, 4); });
        });
    }
}

TEST_CASE("what a rank sent before it left is received, and then it is named", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        for (const std::size_t size : {std::size_t{8}, std::size_t{1'000'000}}) {
            const Bytes out = pattern(size, 3);
            run_on_hosts(hosts, [&](Communicator& comm) {
                Bytes in(size);
                if (comm.rank() == 1) {
                    Work small = comm.start_send_tagged(out.data(), size, 0, 1);
                    comm.send_tagged(out.data(), 8, 0, 2);
                    return;
                }
                if (comm.rank() != 0) return;
                comm.recv_tagged(in.data(), 8, 1, 2);
                comm.recv_tagged(in.data(), size, 1, 1);
                expect(in == out, "the bytes");
                expect_error(Code::peer_left, {1}, [&] { comm.recv_tagged(in.data(), size, 1, 1); });
                expect_error(Code::peer_left, {1}, [&] { comm.send_tagged(in.data(), size, 1, 1); });
                expect(comm.status().ok(), "the communicator lives");
            });
        }
    }
}

TEST_CASE("a communicator that ends takes its receives along, and waits for its sends", "[messages]") {
    for (const Hosts& hosts : layouts()) {
        std::vector<Work> left(hosts.size());
        std::vector<std::uint64_t> unfilled(hosts.size());
        run_on_hosts(hosts, [&](Communicator& comm) {
            std::uint64_t& never = unfilled[static_cast<std::size_t>(comm.rank())];
            const auto index = static_cast<std::size_t>(comm.rank());
            left[index] = comm.start_recv_tagged(&never, 8, comm.rank() ^ 1, 99);
            Bytes bytes(2'000'000, 1);
            Work sent;
            if (comm.rank() == 0) sent = comm.start_send_tagged(bytes.data(), bytes.size(), 1, 5);
            if (comm.rank() == 1) comm.recv_tagged(bytes.data(), bytes.size(), 0, 5);
            comm.finalize();
            sent.wait();
        });
        // The other rank may have left before this one began to.
        for (const Work& work : left) {
            const auto code = expect_error([&] { work.wait(); }).code();
            REQUIRE((code == Code::invalid_argument || code == Code::peer_left));
        }
    }
}

TEST_CASE("a rank alone has messages to itself", "[messages]") {
    run_ranks(1, [](int) {
        Communicator comm = Communicator::connect("tcp://127.0.0.1:1", 0, 1);
        Bytes out = pattern(1'000'000, 1);
        Bytes in(out.size());
        for (int i = 0; i < 20; ++i) {
            Work send = comm.start_send_tagged(out.data(), out.size(), 0, 1);
            expect(comm.recv_tagged(in.data(), in.size(), -1, 1) == 0, "the source");
            send.wait();
        }
        expect(in == out, "the bytes");
        expect_error(Code::timed_out, {0}, [&] { comm.recv_tagged(in.data(), 8, 0, 2, kSoon); });
        Work never = comm.start_recv_tagged(in.data(), 8, 0, 2, kSoon);
        expect_error(Code::timed_out, {0}, [&] { never.wait(); });
    });
}

// Groups of sends and receives. Ranks are threads.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collectives/shm/message_layout.hpp"
#include "collectives/tcp/flow.hpp"
#include "tests/collectives/group_fixture.hpp"

using namespace ddprun;

namespace {

using Code = CollectiveErrorCode;

void refused(const std::function<void()>& body, const std::string& part = "") {
    const auto error = expect_error(Code::invalid_argument, {}, body);
    expect(std::string(error.what()).find(part) != std::string::npos, error.what());
}

// One message of the property test; all ranks draw the same.
struct Message {
    int from = 0;
    int to = 0;
    DataType type = DataType::u8;
    std::vector<std::byte> bytes;
};

std::vector<Message> draw_messages(unsigned seed, int ranks) {
    constexpr DataType kTypes[] = {DataType::u8, DataType::bf16, DataType::i32, DataType::f64};
    constexpr std::size_t kSizes[] = {0, 1, 100, 5'000, kLeastPerLane + 8, 3 * kLeastPerLane, 300'000};
    std::mt19937 random(seed);
    std::vector<Message> messages;
    for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
            if (to == from) continue;
            for (unsigned i = 0; i < random() % 5; ++i) {
                Message message{from, to, kTypes[random() % std::size(kTypes)], {}};
                const std::size_t count = kSizes[random() % std::size(kSizes)] / size_of(message.type);
                message.bytes.resize(count * size_of(message.type));
                const auto data =
                    values(message.bytes.size() / sizeof(int) + 1, static_cast<int>(random() % 1000));
                if (count > 0) std::memcpy(message.bytes.data(), data.data(), message.bytes.size());
                messages.push_back(std::move(message));
            }
        }
    }
    return messages;
}

// Every rank sends and receives what concerns it, in groups of random sizes and in an order of its own, in
// which only messages between the same two ranks in the same direction keep theirs.
void exchange_all(Communicator& comm, const std::vector<Message>& messages, unsigned seed) {
    std::mt19937 random(seed + static_cast<unsigned>(comm.rank()));
    std::map<std::pair<int, int>, std::vector<std::size_t>> queues;
    std::vector<std::pair<int, int>> order;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const Message& message = messages[i];
        if (message.from != comm.rank() && message.to != comm.rank()) continue;
        queues[{message.from, message.to}].push_back(i);
        order.emplace_back(message.from, message.to);
    }
    std::shuffle(order.begin(), order.end(), random);
    for (auto& queue : queues) std::reverse(queue.second.begin(), queue.second.end());
    std::vector<std::vector<std::byte>> received(messages.size());
    Group group(comm);
    for (const auto& ends : order) {
        auto& queue = queues[ends];
        const std::size_t i = queue.back();
        queue.pop_back();
        const Message& message = messages[i];
        const std::size_t count = message.bytes.size() / size_of(message.type);
        if (message.from == comm.rank()) {
            group.send(message.bytes.data(), count, message.type, message.to);
        } else {
            received[i].resize(message.bytes.size());
            group.recv(received[i].data(), count, message.type, message.from);
        }
    }
    group.run();
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].to == comm.rank())
            expect(received[i] == messages[i].bytes, "message " + std::to_string(i));
    }
}

}  // namespace

TEST_CASE("a ring of large messages does not wait for itself", "[group]") {
    on_every_layout({2, 3, 5}, [](Communicator& comm) {
        const int n = comm.world_size();
        const int right = (comm.rank() + 1) % n;
        const int left = (comm.rank() + n - 1) % n;
        Group group(comm);
        for (const std::size_t count : {kLarge, std::size_t{1000}}) {
            const std::vector<int> mine = values(count, comm.rank());
            std::vector<int> theirs(count);
            if (count == kLarge) group.send(std::span(mine), right);
            group.recv(std::span(theirs), left);
            if (count != kLarge) group.send(std::span(mine), right);
            expect(group.size() == 2, "two transfers");
            group.run();
            expect(group.empty(), "empty after run()");
            expect(theirs == values(count, left), "the left one's values");
        }
    });
}

TEST_CASE("everybody sends everybody messages of any size, added in any order", "[group]") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    on_every_layout({2, 3, 5}, [&](Communicator& comm) {
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned drawn = seed + i;
            exchange_all(comm, draw_messages(drawn, comm.world_size()), drawn);
        }
    });
}

TEST_CASE("to the peer a group is what its transfers are one after the other", "[group]") {
    for (const std::size_t count : {std::size_t{100}, kLarge}) {
        on_every_layout({2}, [&](Communicator& comm) {
            if (comm.rank() > 1) return;
            const int peer = 1 - comm.rank();
            const std::vector<int> first = values(count, comm.rank());
            const std::vector<int> second = values(count / 50, comm.rank() + 10);
            std::vector<int> a(count);
            std::vector<int> b(count / 50);
            Group group(comm);
            const auto check = [&](const char* what) {
                expect(a == values(count, peer) && b == values(count / 50, peer + 10), what);
                std::fill(a.begin(), a.end(), -1);
                std::fill(b.begin(), b.end(), -1);
            };
            const auto fill = [&] {
                group.recv(std::span(a), peer);
                group.recv(std::span(b), peer);
                group.send(std::span(first), peer);
                group.send(std::span(second), peer);
            };
            // Plain ones on the other side, all of which would wait for each other if the group were not one.
            if (comm.rank() == 0) {
                fill();
                group.run();
            } else {
                // The group sends before this rank has even connected.
                comm.recv(std::span(a), peer);
                comm.send(std::span(first), peer);
                comm.send(std::span(second), peer);
                comm.recv(std::span(b), peer);
            }
            check("plain ones on the other side");
            // Groups of another size.
            if (comm.rank() == 1) {
                fill();
                group.run();
            } else {
                group.send(std::span(first), peer);
                group.run();
                group.recv(std::span(a), peer);
                group.recv(std::span(b), peer);
                group.run();
                comm.send(std::span(second), peer);
            }
            check("other groups on the other side");
        });
    }
}

TEST_CASE("groups that are started go on beside their caller, in order with all else", "[group]") {
    on_every_layout({2, 3}, [](Communicator& comm) {
        const int n = comm.world_size();
        const int right = (comm.rank() + 1) % n;
        const int left = (comm.rank() + n - 1) % n;
        std::vector<std::vector<int>> received(5, std::vector<int>(100'000));
        std::vector<int> sum(1000, 1);
        std::vector<Work> works;
        {
            Group group(comm);
            for (std::size_t i = 0; i < received.size(); ++i) {
                // What one group received the next one sends on.
                if (i == 0) received[0] = values(100'000, 7 * comm.rank());
                if (i + 1 == received.size()) break;
                group.send(std::span(received[i]), right);
                group.recv(std::span(received[i + 1]), left);
                works.push_back(group.start());
                expect(group.empty(), "empty after start()");
                works.push_back(comm.async().all_reduce(std::span(sum), ReduceOp::sum));
            }
            works.push_back(group.start());
        }
        comm.all_reduce(std::span(sum), ReduceOp::max);
        for (const Work& work : works) {
            expect(work.test(), "a call waits for what was started before");
            work.wait();
        }
        const int origin = ((comm.rank() - 4) % n + n) % n;
        expect(received[4] == values(100'000, 7 * origin), "handed on four times");
        expect(sum == std::vector<int>(1000, n * n * n * n), "sums");
    });
}

TEST_CASE("a group may have as many transfers as it says, and not one more", "[group]") {
    const Hosts hosts = GENERATE(Hosts{"a", "a"}, Hosts{"a", "b"});
    run_on_hosts(hosts, [](Communicator& comm) {
        const int peer = 1 - comm.rank();
        std::vector<std::uint8_t> received(kMaxGroupTransfers / 2);
        std::vector<std::uint8_t> sent(received.size());
        for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint8_t>(i / 3);
        Group group(comm);
        for (std::size_t i = 0; i < sent.size(); ++i) {
            group.send(std::span(sent).subspan(i, 1), peer);
            group.recv(std::span(received).subspan(i, 1), peer);
        }
        refused([&] { group.send(std::span(sent).first(1), peer); }, "more than 65536 transfers");
        expect(group.size() == kMaxGroupTransfers, "as before");
        group.run();
        expect(received == sent, "in order");
    });
}

TEST_CASE("groups of many ranks and messages by tag do not mix, whatever their numbers", "[group]") {
    for (const Hosts& hosts : {Hosts(9, "a"), host_names(3, 2)}) {
        run_on_hosts(hosts, [](Communicator& comm) {
            const int n = comm.world_size();
            for (const std::size_t count : {std::size_t{2}, std::size_t{5'000}}) {
                const auto each = [&](auto body) {
                    for (int peer = 0; peer < n; ++peer) {
                        if (peer != comm.rank()) body(peer, static_cast<std::size_t>(peer));
                    }
                };
                // A group's messages go by their senders' numbers.
                const std::vector<int> tagged = values(count, 1000 * comm.rank());
                const std::vector<int> plain = values(count, 1000 * comm.rank() + 500);
                std::vector<std::vector<int>> got_tagged(static_cast<std::size_t>(n),
                                                         std::vector<int>(count));
                std::vector<std::vector<int>> got_plain = got_tagged;
                std::vector<Work> open;
                const std::size_t bytes = count * sizeof(int);
                each([&](int peer, std::size_t at) {
                    open.push_back(comm.start_recv_tagged(got_tagged[at].data(), bytes,
                                                          Communicator::kAnySource,
                                                          static_cast<std::uint64_t>(peer)));
                    open.push_back(comm.start_send_tagged(tagged.data(), bytes, peer,
                                                          static_cast<std::uint64_t>(comm.rank())));
                });
                Group group(comm);
                each([&](int peer, std::size_t at) {
                    group.send(std::span(plain), peer);
                    group.recv(std::span(got_plain[at]), peer);
                });
                group.run();
                for (const Work& work : open) work.wait();
                each([&](int peer, std::size_t at) {
                    expect(got_tagged[at] == values(count, 1000 * peer), "the one with a tag");
                    expect(got_plain[at] == values(count, 1000 * peer + 500), "the group's");
                });
            }
        });
    }
}

TEST_CASE("messages by tag that nobody receives hold up no send", "[group]") {
    for (const Hosts& hosts : {Hosts{"a", "a"}, Hosts{"a", "b"}}) {
        run_on_hosts(hosts, [](Communicator& comm) {
            const std::vector<int> large = values(5'000, 1);
            std::vector<Work> open;
            std::vector<int> in(large.size());
            if (comm.rank() == 0) {
                for (std::uint32_t i = 0; i < kMessageOffers + 10; ++i)
                    open.push_back(comm.start_send_tagged(large.data(), 20'000, 1, 0));
                for (int i = 0; i < 100; ++i) comm.send(std::span(large), 1);
            } else {
                for (int i = 0; i < 100; ++i) comm.recv(std::span(in), 0);
                for (std::uint32_t i = 0; i < kMessageOffers + 10; ++i)
                    comm.recv_tagged(in.data(), 20'000, 0, 0);
            }
            for (const Work& work : open) work.wait();
        });
    }
}

TEST_CASE("an empty group does nothing, one that is dropped neither", "[group]") {
    run_communicators(1, [](Communicator& comm) {
        Group group(comm);
        group.run();
        group.start().wait();
        expect(group.attempt().ok(), "ok");
        int x = 0;
        refused([&] { group.send(&x, 1, DataType::i32, 0); }, "peer 0 is this rank itself");
    });
    run_communicators(2, [](Communicator& comm) {
        int x = comm.rank();
        Group(comm).run();
        {
            Group dropped(comm);
            dropped.send(&x, 1, DataType::i32, 1 - comm.rank());
        }
        Group group(comm);
        Group other = std::move(group);
        if (comm.rank() == 0) {
            other.recv(&x, 1, DataType::i32, 1);
            other = Group(comm);
            x = 42;
            other.send(&x, 1, DataType::i32, 1);
        } else {
            other.recv(&x, 1, DataType::i32, 0);
        }
        expect(other.attempt().ok(), "ok");
        expect(x == 42, "the one that was run");
        comm.barrier();
    });
}

TEST_CASE("wrong transfers are refused when they are added, and the group stays as it was", "[group]") {
    run_communicators(2, [](Communicator& comm) {
        const int peer = 1 - comm.rank();
        std::vector<int> data(10, comm.rank());
        Group group(comm);
        for (const int wrong : {-1, 2, comm.rank()}) {
            refused([&] { group.send(std::span(data), wrong); }, "send: peer");
            refused([&] { group.recv(std::span(data), wrong); }, "recv: peer");
        }
        refused([&] { group.send(nullptr, 1, DataType::i32, peer); }, "data is null");
        refused([&] { group.recv(nullptr, 1, DataType::i32, peer); }, "data is null");
        refused([&] { group.send(data.data(), 1, static_cast<DataType>(99), peer); }, "unknown DataType 99");
        refused([&] { group.recv(reinterpret_cast<char*>(data.data()) + 1, 1, DataType::i32, peer); },
                "not aligned");
        refused([&] { group.send(data.data(), ~std::size_t{0} / 4, DataType::i32, peer); }, "any memory");
        expect(group.empty(), "nothing was added");
        group.send(nullptr, 0, DataType::f64, peer);
        group.recv(nullptr, 0, DataType::f64, peer);
        group.run();
        group.send(std::span(data).first(5), peer);
        refused([&] { group.start(&data); }, "a stream was given");
        expect(group.empty(), "empty, however it ended");
        refused([&] { comm.submit({.operation = Operation::group}); }, "not an operation");
    });
}

TEST_CASE("memory that is received into belongs to one transfer", "[group]") {
    run_communicators(2, [](Communicator& comm) {
        const int peer = 1 - comm.rank();
        std::vector<int> data(100);
        const auto part = [&](std::size_t first, std::size_t count) {
            return std::span(data).subspan(first, count);
        };
        Group group(comm);
        const auto overlaps = [&] { refused([&] { group.run(); }, "overlap"); };
        group.send(part(0, 10), peer);
        group.recv(part(9, 10), peer);
        overlaps();
        group.recv(part(0, 10), peer);
        group.recv(part(9, 10), peer);
        overlaps();
        group.recv(part(0, 100), peer);
        group.send(part(50, 1), peer);
        overlaps();
        group.send(part(0, 100), peer);
        group.send(part(10, 10), peer);
        group.recv(part(90, 10), peer);
        overlaps();
        group.recv(part(0, 50), peer);
        group.send(part(60, 10), peer);
        group.recv(part(10, 5), peer);
        overlaps();
        group.send(part(0, 1), peer);
        group.recv(part(0, 1), peer);
        const Status status = group.attempt();
        expect(status.code() == Code::invalid_argument, "attempt()");
        expect(status.text().find("send(1 i32 to rank") != std::string_view::npos &&
                   status.text().find("recv(1 i32 from rank") != std::string_view::npos,
               std::string(status.text()));
        // Neighbours, nothing at all, and what is sent twice do not overlap.
        std::fill(data.begin(), data.end(), comm.rank());
        Group fitting(comm);
        fitting.send(part(0, 20), peer);
        fitting.send(part(5, 10), peer);
        fitting.recv(part(20, 20), peer);
        fitting.recv(part(40, 10), peer);
        fitting.send(part(7, 0), peer);
        fitting.recv(part(25, 0), peer);
        fitting.run();
        expect(data[19] == comm.rank() && data[20] == peer && data[49] == peer && data[50] == comm.rank(),
               "received");
    });
}

TEST_CASE("a group of a communicator that is over is refused", "[group]") {
    run_communicators(2, [](Communicator& comm) {
        int x = 0;
        Group group(comm);
        comm.finalize(std::chrono::seconds(60));
        group.send(&x, 1, DataType::i32, 1 - comm.rank());
        refused([&] { group.run(); }, "group: this communicator has been finalized");
        refused([&] { group.start(); }, "has been finalized");
        const Communicator taken = std::move(comm);
        refused([&] { group.send(&x, 1, DataType::i32, 1 - taken.rank()); }, "has been moved from");
        refused([&] { group.run(); }, "has been moved from");
    });
}

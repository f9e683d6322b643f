// Small messages by tag whose senders and receivers do nothing else meanwhile, and so take the short way.
#include <random>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

TEST_CASE("blocking receives take small messages in another order than they come", "[messages]") {
    constexpr std::uint64_t kAnswer = 9;
    // Of one round no more than a receiver keeps, so that no sender waits for a receive.
    constexpr std::size_t kOfRound = 800;
    const auto seed = std::random_device{}();
    for (const Hosts& hosts : {Hosts{"a", "a"}, Hosts{"a", "b"}}) {
        CAPTURE(seed, hosts.size());
        run_on_hosts(hosts, [&](Communicator& comm) {
            std::mt19937 random(seed);
            for (int round = 0; round < 6; ++round) {
                std::vector<std::string> messages;
                std::vector<std::size_t> order;
                for (std::size_t i = 0; i < kOfRound; ++i) {
                    // Some are of one size, and so could be taken for another.
                    messages.push_back(std::to_string(random() % 900 + 99));
                    order.push_back(i);
                    // Neighbours have other tags.
                    if (i % 2 == 1 && i > 3 && random() % 3 == 0) std::swap(order[i], order[i - 1]);
                }
                // One that was begun before must not lose its message to the next one of its tag.
                const bool began_one = round % 2 == 1;
                if (began_one) std::swap(order[1], order[2]);
                const int from = round < 4 ? 0 : Communicator::kAnySource;
                std::string first(messages[0].size(), ' ');
                Work open;
                if (comm.rank() == 1 && began_one)
                    open = comm.start_recv_tagged(first.data(), first.size(), 0, 0);
                const auto answer = [&] {
                    if (comm.rank() == 1) comm.send_tagged(nullptr, 0, 0, kAnswer);
                    if (comm.rank() == 0) comm.recv_tagged(nullptr, 0, 1, kAnswer);
                };
                answer();
                for (std::size_t i = 0; i < kOfRound; ++i) {
                    const bool answered = random() % 4 == 0 && i > 3;
                    if (comm.rank() == 0) {
                        comm.send_tagged(messages[i].data(), messages[i].size(), 1, i % 2);
                    } else if (i > 0 || !began_one) {
                        const std::string& sent = messages[order[i]];
                        std::string got(sent.size(), ' ');
                        expect(comm.recv_tagged(got.data(), got.size(), from, order[i] % 2) == 0,
                               "the source");
                        expect(got == sent, "the bytes");
                    }
                    // Else the receiver finds all of them there. Only where both messages of a pair have been
                    // sent.
                    if (answered && i % 2 == 1) answer();
                }
                if (comm.rank() == 1 && began_one) open.wait();
                expect(comm.rank() == 0 || !began_one || first == messages[0], "what was begun first");
            }
        });
    }
}

TEST_CASE("who receives one message has room again for all that had come", "[messages]") {
    // As many as there are cells between two ranks of a host, and more.
    constexpr int kCells = 64;
    constexpr int kAll = 80;
    for (const Hosts& hosts : {Hosts{"a", "a"}, Hosts{"a", "b"}}) {
        run_on_hosts(hosts, [&](Communicator& comm) {
            const auto pass = [&](int begin, int end) {
                for (int i = begin; i < end; ++i) {
                    int value = i;
                    if (comm.rank() == 0) comm.send_tagged(&value, sizeof(value), 1, 0);
                    if (comm.rank() == 1) comm.recv_tagged(&value, sizeof(value), 0, 0);
                    expect(value == i, "the order");
                }
            };
            const bool sends = comm.rank() == 0;
            if (sends) pass(0, kCells);
            comm.barrier();
            sends ? pass(kCells, kAll) : pass(0, 1);
            comm.barrier();
            if (!sends) pass(1, kAll);
        });
    }
}

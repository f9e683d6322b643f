// Several hosts, played by the ranks of one machine: every operation against the reference, and disagreement
// between hosts.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "collectives/hosts/hosts_backend.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/operation_checks.hpp"
#include "tests/support/sanitized.hpp"

using namespace ddprun;

namespace {

// 2x2, 3x2, 2x3, 4x1, ranks dealt out in turn, and hosts of different sizes.
const Hosts kLayouts[] = {host_names(2, 2), host_names(3, 2),     host_names(2, 3),
                          host_names(4, 1), {"a", "b", "a", "b"}, {"a", "b", "b", "a", "b"}};

constexpr std::size_t kSmallCounts[] = {0, 1, 13, 1009};

// Values that are cheap to make: rank r has (r + 1) * (i mod 7), exact in every type and order.
template <class T>
void check_large(Communicator& comm, std::size_t count, ReduceOp op) {
    const int n = comm.world_size();
    const int sum = n * (n + 1) / 2;
    std::vector<T> data(count);
    for (std::size_t i = 0; i < count; ++i) {
        data[i] = T(static_cast<float>((comm.rank() + 1) * static_cast<int>(i % 7)));
    }
    comm.all_reduce(std::span(data), op);
    const float divisor = op == ReduceOp::avg ? static_cast<float>(n) : 1;
    for (std::size_t i = 0; i < count; ++i) {
        const T expected(static_cast<float>(sum * static_cast<int>(i % 7)) / divisor);
        if (!(data[i] == expected)) expect(false, at("large all_reduce", i, op, comm));
    }
}

}  // namespace

TEMPLATE_TEST_CASE("all_reduce over hosts agrees with the reference for every type", "[hosts][types]", float,
                   double, Float16, BFloat16, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t,
                   std::int64_t, std::uint64_t) {
    const unsigned seed = std::random_device{}();
    for (const Hosts& hosts : kLayouts) {
        INFO("seed " << seed << ", hosts " << text_of(hosts));
        run_on_hosts(hosts, [&](Communicator& comm) {
            for (const ReduceOp op : kAllOps) {
                if (!is_defined(op, data_type_of<TestType>())) continue;
                for (const std::size_t count : kSmallCounts)
                    check_all_reduce<TestType>(comm, seed, count, op);
            }
            // Beyond every whole vector and dissemination.
            for (const ReduceOp op : {ReduceOp::avg, ReduceOp::min}) {
                check_all_reduce<TestType>(comm, seed, 20'011, op);
            }
        });
    }
}

TEMPLATE_TEST_CASE("reduce_scatter over hosts agrees with the reference", "[hosts][types]", float, BFloat16,
                   std::int8_t, std::uint64_t) {
    const unsigned seed = std::random_device{}();
    for (const Hosts& hosts : kLayouts) {
        INFO("seed " << seed << ", hosts " << text_of(hosts));
        run_on_hosts(hosts, [&](Communicator& comm) {
            for (const ReduceOp op : kAllOps) {
                if (!is_defined(op, data_type_of<TestType>())) continue;
                for (const std::size_t count : {std::size_t{1}, std::size_t{333}}) {
                    check_reduce_scatter<TestType>(comm, seed, count, op);
                }
            }
            check_reduce_scatter<TestType>(comm, seed, 9'001, ReduceOp::avg);
        });
    }
}

TEST_CASE("all_gather and broadcast over hosts bring everything everywhere", "[hosts]") {
    for (const Hosts& hosts : kLayouts) {
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{1}, std::size_t{1009}, std::size_t{200'003}}) {
            INFO("hosts " << text_of(hosts) << ", count " << count);
            run_on_hosts(hosts, [&](Communicator& comm) {
                const auto value = [](int rank, std::size_t i) {
                    return rank * 1'000'000 + static_cast<int>(i);
                };
                const auto n = static_cast<std::size_t>(comm.world_size());
                std::vector<int> all(n * count);
                std::vector<int> expected(n * count);
                std::vector<int> mine(count);
                for (std::size_t i = 0; i < expected.size(); ++i) {
                    expected[i] = value(static_cast<int>(i / count), i % count);
                }
                for (std::size_t i = 0; i < count; ++i) mine[i] = value(comm.rank(), i);
                comm.all_gather(mine, std::span(all));
                expect(all == expected, "all_gather");
                std::fill(all.begin(), all.end(), 0);
                const auto place = part_of(all, comm.rank(), count);
                std::copy(mine.begin(), mine.end(), place.begin());
                comm.all_gather(place, std::span(all));
                expect(all == expected, "all_gather in place");
                for (int root = 0; root < comm.world_size(); ++root) {
                    std::vector<int> data(count, -1);
                    for (std::size_t i = 0; comm.rank() == root && i < count; ++i) data[i] = value(root, i);
                    comm.broadcast(std::span(data), root);
                    const auto sent = part_of(expected, root, count);
                    expect(std::equal(data.begin(), data.end(), sent.begin()), "broadcast");
                }
            });
        }
    }
}

TEST_CASE("the other operations work over hosts as ever", "[hosts]") {
    const unsigned seed = std::random_device{}();
    for (const Hosts& hosts : kLayouts) {
        INFO("seed " << seed << ", hosts " << text_of(hosts));
        run_on_hosts(hosts, [&](Communicator& comm) {
            for (const std::size_t count : {std::size_t{13}, std::size_t{30'011}}) {
                check_reduce<std::int64_t>(comm, seed, count, ReduceOp::avg);
                check_rooted_movements<std::int32_t>(comm, seed, count);
                check_all_to_all<std::uint8_t>(comm, seed, count);
            }
        });
    }
}

TEST_CASE("large all_reduces over hosts, of several chunks, by one lane or four", "[hosts]") {
    const unsigned seed = std::random_device{}();
    for (const auto& [hosts, lanes] : {std::pair(host_names(2, 2), 4), std::pair(host_names(3, 2), 1)}) {
        INFO("seed " << seed << ", hosts " << text_of(hosts) << ", lanes " << lanes);
        const std::size_t count = 5 * kHostsSlice / sizeof(float) + 7;
        run_on_hosts(
            hosts,
            [&](Communicator& comm) {
                check_large<float>(comm, count, ReduceOp::sum);
                check_large<BFloat16>(comm, count / 2, ReduceOp::avg);
                check_all_to_all<std::int32_t>(comm, seed, 50'003);
            },
            {}, lanes);
    }
}

TEST_CASE("sums over hosts are bitwise equal on all ranks and from run to run", "[hosts]") {
    for (const Hosts& hosts : kLayouts) {
        for (const std::size_t count : {std::size_t{100}, std::size_t{5'000}, std::size_t{900'001}}) {
            if (kIsSanitized && count > 100'000) continue;  // large ones are in a case below
            std::map<int, std::vector<float>> first;
            std::mutex mutex;
            for (int run = 0; run < 2; ++run) {
                run_on_hosts(hosts, [&](Communicator& comm) {
                    // Sums of these depend on the order.
                    std::mt19937 random(static_cast<unsigned>(comm.rank()));
                    std::vector<float> data(count);
                    for (float& x : data) x = std::exp(static_cast<float>(random() % 1000) / 30 - 15);
                    comm.all_reduce(std::span(data), ReduceOp::sum);
                    const std::lock_guard lock(mutex);
                    const auto& expected = first.emplace(0, data).first->second;
                    expect(std::memcmp(expected.data(), data.data(), count * sizeof(float)) == 0,
                           "the same bits on rank " + std::to_string(comm.rank()));
                });
            }
        }
    }
}

TEST_CASE("16-bit sums over hosts are rounded once", "[hosts]") {
    const BFloat16 one(1.0F);
    const float last_bit = static_cast<float>(BFloat16::from_bits(one.bits + 1)) - 1.0F;
    for (const Hosts& hosts : kLayouts) {
        for (const std::size_t count : {std::size_t{5}, std::size_t{3'000}, std::size_t{100'003}}) {
            run_on_hosts(hosts, [&](Communicator& comm) {
                // The others together have one last bit; rounding at each step would stay at 1.
                const auto others = static_cast<float>(comm.world_size() - 1);
                std::vector<BFloat16> data(count, comm.rank() == 0 ? one : BFloat16(last_bit / others));
                comm.all_reduce(std::span(data), ReduceOp::sum);
                const float exact = 1.0F + others * static_cast<float>(BFloat16(last_bit / others));
                expect(data == std::vector<BFloat16>(count, BFloat16(exact)), "rounded once");
            });
        }
    }
}

TEST_CASE("a barrier over hosts lets nobody through before all have come", "[hosts]") {
    for (const Hosts& hosts : kLayouts) {
        std::atomic<int> came{0};
        run_on_hosts(hosts, [&](Communicator& comm) {
            for (int round = 1; round <= 50; ++round) {
                ++came;
                comm.barrier();
                expect(came.load() >= round * comm.world_size(), "all have come");
                comm.barrier();
            }
        });
    }
}

TEST_CASE("hosts that disagree are told who called what", "[hosts]") {
    for (const Hosts& hosts : kLayouts) {
        for (const std::size_t count : {std::size_t{10}, std::size_t{3'000}, std::size_t{1'000'000}}) {
            INFO("hosts " << text_of(hosts) << ", count " << count);
            run_on_hosts(hosts, [&](Communicator& comm) {
                // All ranks of the last host, so that each host agrees with itself.
                const bool differs = hosts[static_cast<std::size_t>(comm.rank())] == hosts.back();
                std::vector<float> data(count + (differs ? 1 : 0));
                const auto error = expect_error([&] {
                    comm.all_reduce(std::span(data), ReduceOp::sum);
                    comm.barrier();
                });
                const std::string text = error.what();
                expect(error.code() == CollectiveErrorCode::mismatch && !error.culprits().empty(), text);
                // The smaller side is to blame; where both are equal, nobody knows.
                const auto last = std::count(hosts.begin(), hosts.end(), hosts.back());
                const bool smaller = 2 * last < static_cast<std::ptrdiff_t>(hosts.size());
                for (const int rank : error.culprits()) {
                    expect(!smaller || hosts[static_cast<std::size_t>(rank)] == hosts.back(), text);
                }
                for (const std::size_t n : {count, count + 1}) {
                    expect(text.find("all_reduce(sum, " + std::to_string(n) + " f32)") != std::string::npos,
                           text);
                }
            });
        }
    }
}

TEST_CASE("one rank that disagrees is found on its own host and told to all", "[hosts]") {
    run_on_hosts(host_names(2, 2), [](Communicator& comm) {
        std::vector<float> data(100);
        const auto error = expect_error(CollectiveErrorCode::mismatch, {3}, [&] {
            comm.all_reduce(std::span(data), comm.rank() == 3 ? ReduceOp::max : ReduceOp::sum);
            comm.barrier();
        });
        expect(std::string(error.what()).find("all_reduce(max, 100 f32)") != std::string::npos, error.what());
    });
}

TEST_CASE("a communicator split by host shares memory, one across hosts does not", "[hosts]") {
    run_on_hosts(host_names(2, 2), [](Communicator& comm) {
        auto host = comm.split(comm.rank() / 2, 0);
        auto across = comm.split(comm.rank() % 2, 0);
        expect(host && host->local_world_size() == 2 && across && across->local_world_size() == 1, "groups");
        check_all_reduce<float>(*host, 1, 1000, ReduceOp::sum);
        check_all_reduce<float>(*across, 2, 1000, ReduceOp::sum);
    });
}

// All_reduces that travel compressed between hosts: how many bytes leave a rank, and what becomes of the
// values. Ranks are threads here, so all connections are this process's.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <barrier>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>

#include "collectives/grad_buckets.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/thread_ranks.hpp"

using namespace ddprun;

namespace {

// Of two of one size; NaN, too.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

using Calling = std::function<void(Communicator&)>;
using Code = CollectiveErrorCode;

// 2x2, 3x2, plain TCP with two ranks and four, and hosts of different sizes, which is plain TCP as well.
const Hosts kCompressedLayouts[] = {
    host_names(2, 2), host_names(3, 2), host_names(2, 1), host_names(4, 1), {"a", "b", "b"}};
constexpr Compression kBoth[] = {Compression::f16, Compression::bf16};
// The whole vector, dissemination, the ring or the swap in one chunk and in several.
constexpr std::size_t kCounts[] = {0, 1, 13, 1009, 20'011, 300'007};

// What this process has sent over all its TCP connections.
std::uint64_t sent_over_tcp() {
    std::uint64_t sent = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        tcp_info info{};
        socklen_t size = sizeof(info);
        const int descriptor = std::stoi(entry.path().filename());
        if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
            sent += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
    }
    return sent;
}

// What a call sends once everybody is connected, all ranks together.
double bytes_of_call(const Hosts& hosts, const Calling& call) {
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    std::barrier together(static_cast<std::ptrdiff_t>(hosts.size()));
    run_on_hosts(hosts, [&](Communicator& comm) {
        call(comm);
        together.arrive_and_wait();
        if (comm.rank() == 0) before = sent_over_tcp();
        together.arrive_and_wait();
        call(comm);
        together.arrive_and_wait();
        if (comm.rank() == 0) after = sent_over_tcp();
        together.arrive_and_wait();
    });
    return static_cast<double>(after - before);
}

// The call is made with each compression.
void check_bytes_halved(const std::function<void(Communicator&, Compression)>& call) {
    for (const Hosts& hosts : kCompressedLayouts) {
        const auto bytes = [&](Compression compression) {
            return bytes_of_call(hosts, [&](Communicator& comm) { call(comm, compression); });
        };
        const double plain = bytes(Compression::none);
        for (const Compression compression : kBoth) {
            const double compressed = bytes(compression);
            INFO("hosts " << text_of(hosts) << ", " << name_of(compression) << ": " << compressed
                          << " bytes, else " << plain);
            REQUIRE(plain > 0);
            REQUIRE(compressed <= 0.55 * plain);
        }
    }
}

std::vector<std::vector<float>> random_inputs(unsigned seed, int ranks, std::size_t count) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-2, 2);
    std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks), std::vector<float>(count));
    for (auto& input : inputs) {
        for (float& x : input) x = value(random);
    }
    return inputs;
}

// One element over all ranks, and how far off roundings on the way may be.
struct Expected {
    double value;
    double tolerance;
};

Expected reduced(ReduceOp op, Compression compression, const std::vector<std::vector<float>>& inputs,
                 std::size_t i) {
    const double n = static_cast<double>(inputs.size());
    // Half a unit of the last place, relative; the other types' smallest numbers.
    const double rounding = compression == Compression::f16 ? 0x1p-11 : 0x1p-8;
    double value = inputs[0][i];
    double size = std::abs(value);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
        const double x = inputs[rank][i];
        size += std::abs(x);
        if (op == ReduceOp::min) value = std::min(value, x);
        if (op == ReduceOp::max) value = std::max(value, x);
        if (op == ReduceOp::sum || op == ReduceOp::avg) value += x;
        if (op == ReduceOp::prod) value *= x;
    }
    if (op == ReduceOp::avg) value /= n;
    if (op == ReduceOp::avg) size /= n;
    if (op == ReduceOp::prod) size = std::max(std::abs(value), 1.0);
    return {value, (n + 1) * (rounding * 1.05 * size + 0x1p-25)};
}

void check_values(const Hosts& hosts, unsigned seed, std::size_t count, ReduceOp op, Compression compression,
                  int lanes) {
    const auto inputs = random_inputs(seed, static_cast<int>(hosts.size()), count);
    std::vector<std::vector<float>> results(hosts.size());
    run_on_hosts(
        hosts,
        [&](Communicator& comm) {
            const auto rank = static_cast<std::size_t>(comm.rank());
            auto mine = inputs[rank];
            std::vector<float> out(count);
            comm.all_reduce(mine, std::span(out), op, compression);
            expect(mine == inputs[rank], "the input stays as it is");
            comm.all_reduce(std::span(mine), op, compression);
            expect(same_bits(mine, out), "the same in place");
            results[rank] = std::move(mine);
        },
        {}, lanes);
    for (const auto& result : results) REQUIRE(same_bits(result, results[0]));
    for (std::size_t i = 0; i < count; ++i) {
        const Expected expected = reduced(op, compression, inputs, i);
        if (!(std::abs(results[0][i] - expected.value) <= expected.tolerance)) {
            INFO("element " << i << ": " << results[0][i] << ", not " << expected.value << " within "
                            << expected.tolerance);
            REQUIRE(false);
        }
    }
}

float reduced_everywhere(Communicator& comm, float value, ReduceOp op, Compression compression) {
    std::vector<float> data(50'001, value);
    comm.all_reduce(std::span(data), op, compression);
    for (const float x : data) expect(std::memcmp(&x, data.data(), sizeof(x)) == 0, "alike everywhere");
    return data[0];
}

}  // namespace

TEST_CASE("a compressed all_reduce sends half the bytes between hosts", "[compression]") {
    for (const std::size_t count : {std::size_t{1'000}, std::size_t{30'001}, std::size_t{1'000'003}}) {
        if (kIsSanitized && count > 100'000) continue;
        INFO(count << " elements");
        check_bytes_halved([&](Communicator& comm, Compression compression) {
            std::vector<float> data(count, 1);
            comm.all_reduce(std::span(data), ReduceOp::sum, compression);
        });
    }
}

TEST_CASE("compressed gradients send half the bytes between hosts", "[compression]") {
    check_bytes_halved([](Communicator& comm, Compression compression) {
        const std::vector<std::size_t> sizes{300'000, 10, 50'001};
        GradBucketsOptions options;
        options.compression = compression;
        GradBuckets<float> gradients(comm, sizes, options);
        for (std::size_t i = sizes.size(); i-- > 0;) gradients.mark_ready(i);
        gradients.wait_all();
    });
}

TEST_CASE("16-bit sums travel as they are when asked to", "[compression]") {
    for (const Hosts& hosts : {host_names(2, 2), host_names(4, 1)}) {
        const auto bytes = [&](Compression compression) {
            return bytes_of_call(hosts, [&](Communicator& comm) {
                std::vector<BFloat16> data(200'001, BFloat16(static_cast<float>(comm.rank() + 1)));
                comm.all_reduce(std::span(data), ReduceOp::sum, compression);
                expect(data == std::vector<BFloat16>(200'001, BFloat16(10)), "the sum");
            });
        };
        INFO("hosts " << text_of(hosts));
        REQUIRE(bytes(Compression::bf16) <= 0.7 * bytes(Compression::none));
    }
}

TEST_CASE("compressed all_reduces are right but for rounding, with the same bits on all ranks",
          "[compression][types]") {
    const unsigned seed = std::random_device{}();
    for (const Hosts& hosts : kCompressedLayouts) {
        for (const std::size_t count : kCounts) {
            for (const Compression compression : kBoth) {
                for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
                    if (kIsSanitized && op != ReduceOp::avg) continue;  // their way is the same
                    INFO("seed " << seed << ", hosts " << text_of(hosts) << ", " << name_of(op) << " of "
                                 << count << " as " << name_of(compression));
                    check_values(hosts, seed, count, op, compression, 1);
                }
            }
        }
        for (const ReduceOp op : {ReduceOp::min, ReduceOp::prod}) {
            INFO("seed " << seed << ", hosts " << text_of(hosts) << ", " << name_of(op));
            check_values(hosts, seed, 20'011, op, Compression::bf16, 1);
        }
        if (kIsSanitized && hosts != kCompressedLayouts[0]) continue;
        INFO("seed " << seed << ", hosts " << text_of(hosts) << ", four lanes");
        check_values(hosts, seed, 900'001, ReduceOp::sum, Compression::bf16, 4);
    }
}

TEST_CASE("each rank's scalar counts before its values are compressed", "[compression]") {
    for (const Hosts& hosts : kCompressedLayouts) {
        run_on_hosts(hosts, [](Communicator& comm) {
            const double n = comm.world_size();
            std::vector<float> data(20'011, static_cast<float>(comm.rank() + 1));
            comm.all_reduce(std::span(data), premul_sum(2), Compression::bf16);
            expect(data == std::vector<float>(data.size(), static_cast<float>(n * (n + 1))), "the sum");
        });
    }
}

TEST_CASE("NaN and infinity survive compression, and averages do not overflow", "[compression]") {
    for (const Hosts& hosts : kCompressedLayouts) {
        INFO("hosts " << text_of(hosts));
        run_on_hosts(hosts, [](Communicator& comm) {
            const bool first = comm.rank() == 0;
            for (const Compression as : kBoth) {
                expect(std::isnan(reduced_everywhere(comm, first ? NAN : 1, ReduceOp::sum, as)), "NaN");
                expect(std::isnan(reduced_everywhere(comm, first ? NAN : 1, ReduceOp::max, as)), "max NaN");
                expect(reduced_everywhere(comm, first ? INFINITY : 1, ReduceOp::sum, as) == INFINITY, "inf");
                expect(reduced_everywhere(comm, first ? -INFINITY : 1, ReduceOp::avg, as) == -INFINITY,
                       "-inf");
                expect(reduced_everywhere(comm, 60'000, ReduceOp::avg, Compression::f16) == 60'000,
                       "the mean of large values");
                expect(reduced_everywhere(comm, first ? 0x1p100F : 0, ReduceOp::sum, Compression::bf16) ==
                           0x1p100F,
                       "bf16 has f32's range");
            }
        });
    }
}

TEST_CASE("compression changes nothing within the memory of a host, and sends nothing", "[compression]") {
    for (const int n : {1, 3}) {
        run_communicators(n, [&](Communicator& comm) {
            const bool is_shared = comm.local_world_size() == comm.world_size();
            for (const std::size_t count : {std::size_t{5}, std::size_t{100'003}}) {
                std::vector<float> data(count, 1.0F / 3);
                std::vector<float> compressed = data;
                comm.all_reduce(std::span(data), ReduceOp::sum);
                comm.all_reduce(std::span(compressed), ReduceOp::sum, Compression::bf16);
                expect(!is_shared || data == compressed, "the same sum");
            }
        });
    }
}

TEST_CASE("ranks that do not agree on the compression are told", "[compression]") {
    for (const Hosts& hosts : {host_names(2, 2), host_names(2, 1), Hosts{"a", "a"}}) {
        run_on_hosts(hosts, [](Communicator& comm) {
            std::vector<float> data(100'000);
            const bool differs = comm.rank() == comm.world_size() - 1;
            const auto error = expect_error([&] {
                comm.all_reduce(std::span(data), ReduceOp::sum,
                                differs ? Compression::bf16 : Compression::none);
                comm.barrier();
            });
            const std::string text = error.what();
            expect(error.code() == Code::mismatch, text);
            expect(text.find("all_reduce(sum, 100000 f32)") != std::string::npos, text);
            expect(text.find("all_reduce(sum, 100000 f32 sent as bf16)") != std::string::npos, text);
        });
    }
}

TEST_CASE("what cannot travel compressed is refused", "[compression]") {
    run_communicators(2, [](Communicator& comm) {
        const auto refused = [&](const std::string& why, const std::function<void()>& body) {
            const auto error = expect_error(Code::invalid_argument, {}, body);
            expect(std::string(error.what()).find(why) != std::string::npos, error.what());
        };
        std::vector<double> wide(4);
        std::vector<BFloat16> narrow(4);
        refused("f64 cannot travel as bf16",
                [&] { comm.all_reduce(std::span(wide), ReduceOp::sum, Compression::bf16); });
        refused("bf16 cannot travel as f16",
                [&] { comm.all_reduce(std::span(narrow), ReduceOp::sum, Compression::f16); });
        refused("unknown Compression 9",
                [&] { comm.all_reduce(std::span(wide), ReduceOp::sum, static_cast<Compression>(9)); });
        refused("only all_reduce compresses", [&] {
            comm.submit({.operation = Operation::broadcast,
                         .in = wide.data(),
                         .out = wide.data(),
                         .count = 1,
                         .peer = 0,
                         .compression = Compression::bf16});
        });
        comm.barrier();
    });
}

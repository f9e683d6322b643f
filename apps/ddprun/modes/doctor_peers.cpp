#include "apps/ddprun/modes/doctor_peers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "collectives/arithmetic/schedule.hpp"
#include "collectives/communicator.hpp"
#include "collectives/error.hpp"
#include "collectives/group.hpp"
#include "collectives/session/bootstrap.hpp"
#include "collectives/session/place.hpp"
#include "collectives/wire/frame.hpp"
#include "launcher/process/descriptors.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace app {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;

namespace {

using Clock = std::chrono::steady_clock;

// The nodes may take so long to find each other, and one amount of bytes to arrive.
constexpr std::chrono::milliseconds kJoinLimit{5'000};
constexpr std::chrono::milliseconds kTransferLimit{5'000};
// A node that gives up waits so long for its last bytes to go.
constexpr std::chrono::milliseconds kLeaveLimit{1'000};
constexpr int kPings = 4;

Reach reach_of(const boost::system::error_code& error) {
    if (error == asio::error::connection_refused) return Reach::refused;
    return error == asio::error::timed_out ? Reach::silent : Reach::unreachable;
}

asio::awaitable<void> call_node(const ListedNode& node, Deadline deadline, PairReach& result) {
    const auto port = static_cast<std::uint16_t>(node.port);
    result.address = to_string(Endpoint{node.address, port});
    boost::system::error_code bad_address;
    const auto address = asio::ip::make_address(node.address, bad_address);
    if (bad_address) {
        result.reach = Reach::unreachable;
        result.error = "no address";
        co_return;
    }
    asio::steady_timer timer(co_await asio::this_coro::executor, deadline);
    std::vector<tcp::endpoint> addresses(1, tcp::endpoint(address, port));
    auto first = co_await (race_to_connect(std::move(addresses)) || timer.async_wait(asio::use_awaitable));
    if (first.index() == 1) co_return;  // The result says already that it is silent.
    const RaceResult race = std::move(std::get<0>(first));
    result.reach = race.socket ? Reach::reached : reach_of(race.error);
    if (!race.socket) result.error = race.error.message();
}

std::int64_t microseconds_since(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

std::int64_t wall_clock_us() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// What one node has measured with another one.
struct Measured {
    std::int64_t latency_us = std::numeric_limits<std::int64_t>::max();
    std::int64_t clock_offset_us = 0;  // how far the other one's clock is ahead, within latency_us
    std::optional<std::int64_t> mbit_s;
};

// The two send their clocks to and fro, the lower rank first. From the quickest answer comes the other one's
// clock.
void ping(Communicator& all, int peer, Measured& result) {
    const bool begins = all.rank() < peer;
    std::array<std::int64_t, 1> clock{};
    std::int64_t wall = 0;
    Clock::time_point start;
    for (int turn = 0; turn < 2 * kPings; ++turn) {
        if ((turn % 2 == 0) == begins) {
            start = Clock::now();
            clock.front() = wall = wall_clock_us();
            all.send(std::span(clock), peer);
            continue;
        }
        all.recv(std::span(clock), peer);
        const std::int64_t took = microseconds_since(start);
        if (turn == 0 || took >= result.latency_us) continue;
        const std::int64_t theirs = std::clamp<std::int64_t>(clock.front(), 0, kGreatestNumber / 2);
        result.latency_us = took;
        result.clock_offset_us = theirs - (wall + took / 2);
    }
}

void swap_bytes(Communicator& all, int peer, std::span<unsigned char> sent, std::span<unsigned char> received,
                Measured& result) {
    const auto start = Clock::now();
    Group group(all);
    group.send(sent, peer);
    group.recv(received, peer);
    group.run();
    const auto bits = static_cast<std::int64_t>(sent.size() * 8);
    result.mbit_s = bits / std::max<std::int64_t>(1, microseconds_since(start));
}

// Measures with each other rank, and says by `results`, in the order of ranks, what is known until it ends or
// throws.
void measure_all(Communicator& all, std::vector<Measured>& results) {
    const auto end = Clock::now() + kMeasureLimit;
    std::vector<unsigned char> sent(kMostMeasured), received(kMostMeasured);
    std::array<unsigned char, 1> is_enough{};
    for (std::size_t bytes = kLeastMeasured; is_enough.front() == 0; bytes *= 2) {
        const auto start = Clock::now();
        for (int step = 0; step < exchange_steps(all.world_size()); ++step) {
            const int peer = exchange_partner(all.rank(), all.world_size(), step);
            if (peer == all.rank()) continue;
            if (Clock::now() > end)
                throw CollectiveError(CollectiveErrorCode::timed_out,
                                      fmt::format("it took longer than {} s", kMeasureLimit.count()),
                                      {all.rank()});
            Measured& result = results.at(static_cast<std::size_t>(peer));
            // The ping also brings both to this step.
            ping(all, peer, result);
            swap_bytes(all, peer, std::span(sent).first(bytes), std::span(received).first(bytes), result);
        }
        is_enough.front() = Clock::now() - start >= kEnoughTime || 2 * bytes > kMostMeasured ? 1 : 0;
        all.broadcast(std::span(is_enough), 0);
    }
}

std::optional<NodeRate> rate_of(const std::vector<Measured>& results, int self) {
    std::optional<NodeRate> rate;
    for (int node = 0; node < static_cast<int>(results.size()); ++node) {
        const auto& [latency_us, clock_offset_us, mbit_s] = results[static_cast<std::size_t>(node)];
        if (!mbit_s) continue;
        if (!rate) rate = NodeRate{self, *mbit_s, *mbit_s, node, latency_us, {}};
        rate->mbit_s = std::max(rate->mbit_s, *mbit_s);
        rate->latency_us = std::min(rate->latency_us, latency_us);
        if (node == 0) rate->clock_offset_us = -clock_offset_us;
        if (*mbit_s >= rate->least_mbit_s) continue;
        rate->least_mbit_s = *mbit_s;
        rate->least_with = node;
    }
    return rate;
}

Place place_among(const Environment& environment, int rank, int ranks) {
    Place place;
    place.rank = rank;
    place.world_size = ranks;
    place.transport = Transport::tcp;
    place.host = read_host_settings(environment);
    place.host.sockets_per_peer = 1;
    place.mesh_key = read_mesh_key(environment);
    place.own_numbers = true;
    return place;
}

}  // namespace

std::vector<PairReach> call_nodes(const std::vector<ListedNode>& nodes, int self) {
    std::vector<PairReach> results(nodes.size());
    for (std::size_t first = 0; first < nodes.size(); first += kMostCalledAtOnce) {
        asio::io_context context(1);
        const Deadline deadline = Clock::now() + kCallLimit;
        for (std::size_t i = first; i < std::min(nodes.size(), first + kMostCalledAtOnce); ++i) {
            results[i].from = self;
            results[i].to = nodes[i].rank;
            if (nodes[i].rank != self)
                asio::co_spawn(context, call_node(nodes[i], deadline, results[i]), asio::detached);
        }
        context.run();
    }
    std::erase_if(results, [self](const PairReach& pair) { return pair.to == self; });
    return results;
}

void measure_rates(const Measuring& own, int nodes, int self, ReachReport& report) {
    // Each other node has two connections with this one.
    raise_open_files();
    CommunicatorOptions options;
    options.join_timeout = kJoinLimit;
    options.operation_timeout = kTransferLimit;
    options.leave_timeout = kLeaveLimit;
    options.backend = BackendChoice::cpu;
    std::vector<Measured> results(static_cast<std::size_t>(nodes));
    try {
        Communicator all(
            open_session(own.store, own.address, place_among(own.environment, self, nodes), options));
        measure_all(all, results);
    } catch (const CollectiveError& error) {
        report.error = error.what();
        report.culprits = error.culprits();
    }
    report.rate = rate_of(results, self);
}

}  // namespace app
}  // namespace ddprun

// A network of machines on which agents are born and die: connections whose messages are late but in order,
// cuts that hold them up, and the word of a living machine that the other end is dead.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {

// An agent: the machine that it is on, and how many were there before it.
struct Where {
    int machine = 0;
    int life = 0;
    bool operator==(const Where&) const = default;
};

class SimulatedNetwork {
  public:
    struct Packet {
        TimePoint at;
        std::optional<ControlMessage> message;  // nothing: the other end has closed, or is dead
    };
    struct Connection {
        Where caller, host;
        std::deque<Packet> to_caller, to_host;
        bool caller_open = true, host_open = true;
    };

    explicit SimulatedNetwork(std::mt19937& random, int machines)
        : random_(random), sides_(static_cast<std::size_t>(machines)) {}

    bool reaches(int from, int to) const { return side_of(from) == side_of(to); }
    void cut_at_random() {
        for (int& side : sides_) side = std::uniform_int_distribution<int>(0, 1)(random_);
    }
    void heal() { std::fill(sides_.begin(), sides_.end(), 0); }

    std::uint64_t connect(Where caller, Where host) {
        connections_[++last_] = {.caller = caller, .host = host};
        return last_;
    }
    Connection* find(std::uint64_t id) {
        const auto found = connections_.find(id);
        return found == connections_.end() ? nullptr : &found->second;
    }
    std::map<std::uint64_t, Connection>& all() { return connections_; }

    void say(std::uint64_t id, bool to_host, std::optional<ControlMessage> message, TimePoint now) {
        Connection* connection = find(id);
        if (connection == nullptr) return;
        auto& queue = to_host ? connection->to_host : connection->to_caller;
        // The host's own agent is in its process.
        const int longest = connection->caller == connection->host ? 0 : 30;
        const auto delay = std::chrono::milliseconds(std::uniform_int_distribution<int>(0, longest)(random_));
        const TimePoint at = now + delay;
        queue.push_back({queue.empty() ? at : std::max(at, queue.back().at), std::move(message)});
    }
    // One end closes, or its agent dies.
    void close(std::uint64_t id, bool by_host, TimePoint now) {
        Connection* connection = find(id);
        if (connection == nullptr) return;
        bool& open = by_host ? connection->host_open : connection->caller_open;
        if (!std::exchange(open, false)) return;
        say(id, !by_host, std::nullopt, now);
        (by_host ? connection->to_host : connection->to_caller).clear();
        if (!connection->host_open && !connection->caller_open) connections_.erase(id);
    }
    // The next message that has arrived at that end.
    std::optional<Packet> arrived(std::uint64_t id, bool at_host, TimePoint now) {
        Connection* connection = find(id);
        if (connection == nullptr || !(at_host ? connection->host_open : connection->caller_open)) return {};
        auto& queue = at_host ? connection->to_host : connection->to_caller;
        const bool is_there = !queue.empty() && queue.front().at <= now &&
                              reaches(connection->caller.machine, connection->host.machine);
        if (!is_there) return {};
        Packet packet = std::move(queue.front());
        queue.pop_front();
        return packet;
    }

  private:
    int side_of(int machine) const { return sides_.at(static_cast<std::size_t>(machine)); }

    std::mt19937& random_;
    std::vector<int> sides_;
    std::map<std::uint64_t, Connection> connections_;
    std::uint64_t last_ = 0;
};

}  // namespace ddprun

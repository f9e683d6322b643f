// SimulatedRegister: what etcd holds of the job in a simulated network, by leases that run out and can be cut
// from any machine; and what an agent's EtcdElection keeps in mind of that.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/membership/quorum.hpp"
#include "tests/support/simulated_network.hpp"

namespace ddprun {

// As short as an election may have it: a heartbeat.
inline constexpr std::chrono::milliseconds kSimulatedTtl{600};

struct SimulatedElection {
    std::optional<RecordWish> wish;
    bool is_settled = true;
    std::deque<std::pair<TimePoint, RecordNews>> news;  // on their way back
    TimePoint next_turn{};
};

class SimulatedRegister {
  public:
    explicit SimulatedRegister(int machines) : cut_(static_cast<std::size_t>(machines)) {}

    bool reaches(Where agent) const { return !cut_.at(static_cast<std::size_t>(agent.machine)); }
    void cut(int machine) { cut_.at(static_cast<std::size_t>(machine)) = true; }
    void heal() { cut_.assign(cut_.size(), false); }
    void lose_data() {
        host_.reset();
        round_.reset();
    }
    // Leases run out.
    void look(TimePoint now) {
        if (host_ && now >= host_->end) host_.reset();
        if (round_ && now >= round_->end) round_.reset();
    }

    std::optional<Where> host() const { return host_ ? std::optional(host_->owner) : std::nullopt; }
    const RoundRecord* record() const { return round_ ? &round_->record : nullptr; }
    bool is_own_round(Where agent) const { return round_ && round_->owner == agent; }

    void keep(Where agent, TimePoint now) {
        if (host_ && host_->owner == agent) host_->end = now + kSimulatedTtl;
        if (is_own_round(agent)) round_->end = now + 3 * kSimulatedTtl;
    }
    // The host's key, and what was recorded with it.
    void take(Where agent, TimePoint now) {
        host_ = Held{agent, now + kSimulatedTtl, {}};
        if (round_) round_->owner = agent;
        keep(agent, now);
    }
    void write(Where agent, const RoundRecord& record, TimePoint now) {
        round_ = Held{agent, now + 3 * kSimulatedTtl, record};
    }
    void drop(Where agent, bool of_round) {
        if (host_ && host_->owner == agent) host_.reset();
        if (of_round && is_own_round(agent)) round_.reset();
    }

  private:
    struct Held {
        Where owner;
        TimePoint end;
        RoundRecord record;
    };

    std::vector<bool> cut_;
    std::optional<Held> host_, round_;
};

}  // namespace ddprun

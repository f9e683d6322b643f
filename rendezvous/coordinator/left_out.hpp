// Nodes that take no part in a job: those that are not fit for it, and those whose workers fail again and again. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/control/control_message.hpp"

namespace ddprun::inline job {

// UnfitNodes: those that looked at themselves before the job (--check) and said that they are not fit for it. They take no
// part, and nobody waits for them. Pure; the Coordinator asks.
class UnfitNodes {
  public:
    // A node may be fit when it comes again. The one that hosts cannot be left out.
    void learn(const Hello& hello, bool is_host);

    // How many will not come.
    int left_out() const { return static_cast<int>(nodes_.size()); }
    bool has_any() const { return host_.has_value() || !nodes_.empty(); }

    // Why there is no job: too few can come, or the host is one of them.
    std::optional<Refused> fault(int nnodes, int least) const;

    // To an agent that says so, which was told of it by others for the user of node 0.
    static Refused refusal(const Hello& hello);

  private:
    struct UnfitNode {
        std::string name;
        std::string why;
    };
    // The key is its number; for one without it its host and process.
    std::map<std::string, UnfitNode> nodes_;
    std::optional<UnfitNode> host_;
};

// Exclusion: which nodes' workers fail again and again, and which machines take part no longer. Pure; kept by the
// Coordinator, which knows whether the job can do without them.
//
// Counted are the rounds of the job that failed first on a node, whichever they were and however long ago: a place in
// the job's order together with the host that has it (see Seating). So a node keeps its count when its agent comes
// again to its place, and another machine that takes the place begins with none. Nothing else begins a count anew.
// Excluded are machines: who comes again from one is the same trouble.
class Exclusion {
  public:
    // `after` so many rounds that failed first there a node is due to be left out; 0: never.
    explicit Exclusion(int after) : after_(after) {}

    // The workers of this node were the culprit of a round.
    void blame(int place, const std::string& host) { ++rounds_[{place, host}]; }

    bool is_due(int place, const std::string& host) const {
        return after_ > 0 && rounds_of(place, host) >= after_;
    }

    // `its workers failed first in 3 rounds (--exclude-after 3)`; of one that is due.
    std::string reason(int place, const std::string& host) const;

    // This machine is left out, for that reason.
    void exclude(const std::string& host, const std::string& reason) { excluded_[host] = reason; }

    void take_back(const std::string& host) { excluded_.erase(host); }

    // Why this machine is left out; nullptr where it is not.
    const std::string* why(const std::string& host) const {
        const auto entry = excluded_.find(host);
        return entry == excluded_.end() ? nullptr : &entry->second;
    }

  private:
    int rounds_of(int place, const std::string& host) const {
        const auto entry = rounds_.find({place, host});
        return entry == rounds_.end() ? 0 : entry->second;
    }

    int after_;
    std::map<std::pair<int, std::string>, int> rounds_;
    std::map<std::string, std::string> excluded_;
};

}  // namespace ddprun::inline job

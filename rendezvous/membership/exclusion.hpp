// Exclusion: which nodes' workers fail again and again, and which machines take part no longer. Pure; kept by
// the Coordinator, which knows whether the job can do without them.
//
// Exclusion counts, for each node, the rounds of the job that failed first there, in a row or not, however
// long ago. A node here is a place in the job's order together with the host that has it (see Seating). A
// node keeps its count when its agent comes again to its place, and another machine that takes the place
// begins with none. Nothing else begins a count anew. Machines are excluded, not agents: a new agent on the
// same machine would bring the same trouble.
#pragma once

#include <map>
#include <string>
#include <utility>

namespace ddprun {
inline namespace job {

class Exclusion {
  public:
    // Exclusion makes a node due to be left out once `after` rounds failed first there; 0: never.
    explicit Exclusion(int after) : after_(after) {}

    // Notes that the workers of this node were the culprit of a round.
    void blame(int place, const std::string& host) { ++rounds_[{place, host}]; }

    bool is_due(int place, const std::string& host) const {
        return after_ > 0 && rounds_of(place, host) >= after_;
    }

    // Returns `its workers failed first in 3 rounds (--exclude-after 3)`, for a node that is due.
    std::string reason(int place, const std::string& host) const;

    // Leaves this machine out, for that reason.
    void exclude(const std::string& host, const std::string& reason) { excluded_[host] = reason; }

    void take_back(const std::string& host) { excluded_.erase(host); }

    // Returns why this machine is left out; nullptr where it is not.
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

}  // namespace job
}  // namespace ddprun

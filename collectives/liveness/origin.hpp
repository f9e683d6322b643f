// Origin: which communicator a new one comes from (by default from none), and what it has from there.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/liveness/death_news.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

class Lifeline;

struct Origin {
    Lifeline* parent = nullptr;                       // borrowed until the new one's join is complete
    std::vector<int> ranks;                           // the new one's ranks, by their numbers in the parent
    std::shared_ptr<DeathNews> death_news = nullptr;  // for a communicator without a parent; null: none
    // meet: called once others may dial this rank; returns when this rank may dial them. Where it throws, no
    // rank has dialled. Empty: this rank may dial at once.
    std::function<void(const Membership&)> meet = {};
};

// Returns what the end of the parent means for a communicator that is just being split off. Pure.
Verdict inherited_verdict(const Verdict& of_parent, std::span<const int> ranks);

}  // namespace detail
}  // namespace ddprun

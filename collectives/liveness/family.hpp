// Family: the communicators of one process that come from each other by split.
//
// A process that is dead is dead in all of them, but each hears of it by ways of its own, at its own time. A
// rank that heard in one and therefore leaves the others in order would be named there in place of the dead,
// by those who have not heard yet. So what ends one by a death ends all that the dead process is in, before a
// call of this rank can fail. Any other end concerns one communicator only.
//
// While ranks split, the new communicator's ring is open: a rank that gives up because the old one ended may
// be out of the reach of others, which take it for dead. They ask the old one (Origin::parent).
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "collectives/call/verdict.hpp"

namespace ddprun::inline detail {

class DeathNews;
class Lifeline;

// Processes are numbered by their ranks in the first communicator.
struct Family {
    std::mutex mutex;  // of all these lifelines
    std::vector<Lifeline*> lifelines;
    std::vector<int> dead;
};

// Which communicator a new one comes from (by default from none), and what it has from there.
struct Origin {
    Lifeline* parent = nullptr;             // borrowed until the new one's join is complete
    std::vector<int> ranks;                 // those in the parent, by rank in the new one
    std::shared_ptr<DeathNews> death_news;  // the parent's; of one that comes from none, its own; null: none
};

// What the end of the parent means for a communicator that is just being split off. Pure.
Verdict inherited_verdict(const Verdict& of_parent, std::span<const int> ranks);

}  // namespace ddprun::inline detail

#include "rendezvous/etcd/election_table.hpp"

#include <initializer_list>
#include <set>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using A = ElectionAction;
using E = ElectionEvent;
using S = ElectionState;

struct Step {
    E event;
    A action;
    S next;
};

void walk(std::initializer_list<Step> steps) {
    S state = S::resting;
    for (const Step& expected : steps) {
        INFO("state " << name_of_value(state) << ", event " << name_of_value(expected.event));
        const ElectionStep step = next_step(state, expected.event);
        CHECK(step.action == expected.action);
        CHECK(step.next == expected.next);
        state = step.next;
    }
}

}  // namespace

TEST_CASE("election: the lives of an agent") {
    SECTION("it is elected, loses its lease, and writes the key again") {
        walk({{E::campaign_asked, A::race, S::racing},
              {E::trouble, A::race, S::racing},
              {E::key_won, A::announce, S::hosting},
              {E::publish_asked, A::keep, S::hosting},
              {E::host_found, A::none, S::hosting},
              {E::campaign_asked, A::none, S::hosting},
              {E::trouble, A::keep, S::hosting},
              {E::lease_lost, A::restore, S::restoring},
              {E::trouble, A::restore, S::restoring},
              {E::refused, A::restore, S::restoring},
              {E::key_won, A::keep, S::hosting},
              {E::withdraw_asked, A::drop_lease, S::withdrawn}});
    }
    SECTION("another one was first, and dies before it was reached") {
        walk({{E::campaign_asked, A::race, S::racing},
              {E::key_taken, A::follow, S::following},
              {E::key_taken, A::follow, S::following},
              {E::key_gone, A::race, S::racing},
              {E::key_won, A::announce, S::hosting}});
    }
    SECTION("the host is found, and lost again") {
        walk({{E::campaign_asked, A::race, S::racing},
              {E::key_taken, A::follow, S::following},
              {E::host_found, A::rest, S::resting},
              {E::host_found, A::none, S::resting},
              {E::campaign_asked, A::race, S::racing}});
    }
    SECTION("it may have won when the host answers") {
        walk({{E::campaign_asked, A::race, S::racing}, {E::host_found, A::drop_lease, S::resting}});
    }
    SECTION("a host that was away is no longer one") {
        walk({{E::campaign_asked, A::race, S::racing},
              {E::key_won, A::announce, S::hosting},
              {E::lease_lost, A::restore, S::restoring},
              {E::key_taken, A::follow, S::following}});
    }
    SECTION("the host is lost, and this member leads the job after it, or another one") {
        walk({{E::campaign_asked, A::race, S::racing},
              {E::host_found, A::drop_lease, S::resting},
              {E::claim_asked, A::claim, S::claiming},
              {E::trouble, A::claim, S::claiming},
              {E::key_taken, A::claim, S::claiming},
              {E::host_found, A::drop_lease, S::resting},
              {E::claim_asked, A::claim, S::claiming},
              {E::key_won, A::lead, S::hosting},
              {E::publish_asked, A::keep, S::hosting},
              {E::record_asked, A::keep, S::hosting},
              {E::lease_lost, A::restore, S::restoring},
              {E::record_asked, A::restore, S::restoring},
              {E::key_taken, A::follow, S::following},
              {E::record_asked, A::follow, S::following}});
    }
    SECTION("nobody may lead the job any more") {
        walk({{E::claim_asked, A::claim, S::claiming}, {E::unfit, A::give_up, S::resting}});
    }
    SECTION("the job runs elsewhere, as this host is told") {
        walk({{E::campaign_asked, A::race, S::racing},
              {E::key_won, A::announce, S::hosting},
              {E::release_asked, A::drop_lease, S::resting}});
    }
    SECTION("etcd is of no help") {
        walk({{E::campaign_asked, A::race, S::racing},
              {E::too_late, A::give_up, S::resting},
              {E::campaign_asked, A::race, S::racing},
              {E::refused, A::give_up, S::resting}});
    }
}

TEST_CASE("election: whatever happens, it can be ended, and ends") {
    for (int state = 0; state < kElectionStates; ++state) {
        INFO(name_of_value(static_cast<S>(state)));
        CHECK(next_step(static_cast<S>(state), E::withdraw_asked).next == S::withdrawn);
    }
    for (int event = 0; event < kElectionEvents; ++event)
        CHECK(next_step(S::withdrawn, static_cast<E>(event)).action == A::none);
}

TEST_CASE("election: a host gives its place up only to another one, or where it was told so") {
    const std::set<E> gives_up{E::withdraw_asked, E::release_asked, E::claim_asked, E::key_taken};
    for (const S state : {S::hosting, S::restoring}) {
        for (int event = 0; event < kElectionEvents; ++event) {
            const S next = next_step(state, static_cast<E>(event)).next;
            if (next != S::hosting && next != S::restoring) CHECK(gives_up.contains(static_cast<E>(event)));
        }
    }
}

}  // namespace ddprun

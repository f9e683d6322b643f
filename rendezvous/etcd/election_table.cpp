#include "rendezvous/etcd/election_table.hpp"

#include "rendezvous/system/transition_table.hpp"

namespace ddprun::inline job {
namespace {

struct ElectionTable {
    using enum ElectionState;
    using E = ElectionEvent;
    using A = ElectionAction;

    // clang-format off
    static constexpr Transition<ElectionState, E, A> kRows[] = {
        {resting,   E::campaign_asked, A::race,       racing},
        {resting,   E::claim_asked,    A::claim,      claiming},
        {resting,   E::withdraw_asked, A::drop_lease, withdrawn},

        {racing,    E::claim_asked,    A::claim,      claiming},
        {racing,    E::key_won,        A::announce,   hosting},
        {racing,    E::key_taken,      A::follow,     following},
        {racing,    E::trouble,        A::race,       racing},
        {racing,    E::refused,        A::give_up,    resting},
        {racing,    E::too_late,       A::give_up,    resting},
        // The key may have been written before that is known here.
        {racing,    E::host_found,     A::drop_lease, resting},
        {racing,    E::withdraw_asked, A::drop_lease, withdrawn},

        {following, E::key_taken,      A::follow,     following},
        {following, E::key_gone,       A::race,       racing},
        {following, E::trouble,        A::follow,     following},
        {following, E::refused,        A::give_up,    resting},
        {following, E::too_late,       A::give_up,    resting},
        {following, E::host_found,     A::rest,       resting},
        {following, E::campaign_asked, A::follow,     following},
        {following, E::claim_asked,    A::claim,      claiming},
        {following, E::record_asked,   A::follow,     following},
        {following, E::withdraw_asked, A::drop_lease, withdrawn},

        {claiming,  E::claim_asked,    A::claim,      claiming},
        {claiming,  E::key_won,        A::lead,       hosting},
        {claiming,  E::key_taken,      A::claim,      claiming},
        {claiming,  E::trouble,        A::claim,      claiming},
        {claiming,  E::refused,        A::give_up,    resting},
        {claiming,  E::unfit,          A::give_up,    resting},
        {claiming,  E::too_late,       A::give_up,    resting},
        // As above.
        {claiming,  E::host_found,     A::drop_lease, resting},
        {claiming,  E::withdraw_asked, A::drop_lease, withdrawn},

        {hosting,   E::publish_asked,  A::keep,       hosting},
        {hosting,   E::record_asked,   A::keep,       hosting},
        {hosting,   E::claim_asked,    A::claim,      claiming},
        {hosting,   E::release_asked,  A::drop_lease, resting},
        {hosting,   E::key_kept,       A::keep,       hosting},
        {hosting,   E::trouble,        A::keep,       hosting},
        {hosting,   E::refused,        A::keep,       hosting},
        {hosting,   E::lease_lost,     A::restore,    restoring},
        {hosting,   E::withdraw_asked, A::drop_lease, withdrawn},

        {restoring, E::publish_asked,  A::restore,    restoring},
        {restoring, E::record_asked,   A::restore,    restoring},
        {restoring, E::claim_asked,    A::claim,      claiming},
        {restoring, E::key_won,        A::keep,       hosting},
        {restoring, E::key_taken,      A::follow,     following},
        {restoring, E::trouble,        A::restore,    restoring},
        {restoring, E::refused,        A::restore,    restoring},
        {restoring, E::withdraw_asked, A::drop_lease, withdrawn},
    };
    // clang-format on
};
static_assert(is_unambiguous(ElectionTable::kRows));

}  // namespace

ElectionStep next_step(ElectionState state, ElectionEvent event) {
    const auto* row = find_transition(ElectionTable::kRows, state, event);
    return row != nullptr ? ElectionStep{row->action, row->next} : ElectionStep{ElectionAction::none, state};
}

}  // namespace ddprun::inline job

#include "rendezvous/control/secret_words.hpp"

#include "rendezvous/job/exit_code.hpp"

namespace ddprun::inline job {

Refused secret_is_asked_for() {
    return {.reason = "node 0 asks for the job's secret: set DDPRUN_SECRET_FILE",
            .exit_code = kExitNotAdmitted,
            .other_job = "asks for its job's secret"};
}

Refused secret_is_of_no_use(Proof proof) {
    if (proof == Proof::no_key)
        return {.reason =
                    "node 0 has no secret, this node has one: set DDPRUN_SECRET_FILE there, too, or say "
                    "--auth off "
                    "here",
                .exit_code = kExitNotAdmitted,
                .other_job = "has no secret"};
    return {.reason = "node 0 has another secret, or another --rdzv-id, which is part of the key",
            .exit_code = kExitNotAdmitted,
            .other_job = "has another secret, or another --rdzv-id"};
}

}  // namespace ddprun::inline job

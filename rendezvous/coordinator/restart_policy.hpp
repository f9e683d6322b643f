// RestartPolicy: whether a failed round is followed by another. Pure; the Coordinator asks once for each
// failure.
//
// Checked in this order:
//   1. Final is what cannot be helped by trying again: a signal from outside, a program that cannot be
//      started, an exit code the user excluded.
//   2. The budget of the whole job.
//   3. The same failure: the same_failure-th in a row with one signature (failure_signature()) is the last.
//   4. Progress: after kMaxRestartsWithoutProgress restarts in a row that came to nothing, another one is
//      not worth it. A round has come to something if the progress file changed, or, without such a file,
//      if it lasted min_uptime.
// Where the user's program has answered (--on-failure), only a signal from outside and the budget are
// stronger.
//
// The last two do not hold where the node that failed is left out of the next round: that is something new to
// try. But the row goes on: if the same failure comes again there, on another node, the program is at fault.
//
// A row of the same failure begins anew with another failure, with one that is not the program's (it has no
// signature), and with one of a round in which the progress file changed. Training that got on and then
// crashed at its old place is worth another round. A round that lasted does not break the row, for a program
// may need its time to reach the place where it always dies.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/job_options.hpp"

namespace ddprun {
inline namespace job {

class RestartPolicy {
  public:
    static constexpr int kMaxRestartsWithoutProgress = 3;

    explicit RestartPolicy(RestartOptions options) : options_(std::move(options)) {}

    // RoundResult: what came of a round that failed.
    struct RoundResult {
        Failure failure;
        std::chrono::milliseconds uptime{0};
        bool progressed = false;                             // some node's progress file changed
        bool cancelled = false;                              // the user wants the job to end
        std::string signature;                               // failure_signature() of it
        Judgement::Answer answer = Judgement::Answer::none;  // of --on-failure; exclude is a restart
        bool is_left_out = false;  // another round would be one without the node that failed
    };

    struct Decision {
        bool restart = false;
        std::chrono::milliseconds delay{0};
        std::string message;  // why not, where a restart might have been expected
    };

    // Decides, and counts the restart if it is granted. `jitter` in [0, 1) spreads the delay over its upper
    // half.
    Decision decide(const RoundResult& result, double jitter);

    // Goes on from the restarts that another policy of the same job has granted.
    void go_on_from(int restarts) { restarts_ = restarts; }

    int restarts() const { return restarts_; }
    int max_restarts() const { return options_.max_restarts; }

  private:
    void count_same(const RoundResult& result);
    std::string why_final(const Failure& failure) const;
    std::string why_repeated(const RoundResult& result) const;

    RestartOptions options_;
    int restarts_ = 0;
    std::string signature_;     // of the last failure
    int same_ = 0;              // in a row with that signature
    int without_progress_ = 0;  // restarts in a row after rounds that came to nothing
};

}  // namespace job
}  // namespace ddprun

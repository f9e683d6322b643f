// RestartPolicy: whether a failed round is followed by another. Pure; asked by the Coordinator, once for each
// failure.
//
// In this order: what cannot be helped by trying again is final (a signal from outside, a
// program that cannot be started, an exit code the user excluded); then the budget of the whole job; then
// whether it failed as before: the same_failure-th failure in a row with one signature (failure_signature.hpp) is
// the last; then progress: after kMaxRestartsWithoutProgress restarts in a row whose rounds came to nothing, another
// one is not worth it. A round has come to something if the progress file changed, or, without such a file, if it
// lasted min_uptime.
// Where the user's program has answered (--on-failure), only a signal from outside and the budget are stronger.
//
// The last two do not hold where the node that failed is left out of the next round: that is something new to try.
// But the row goes on, so if the same failure comes again there, on another node, the program is at fault.
//
// A row of the same failure begins anew with another failure, with one that is not the program's (it has no
// signature), and with one whose round changed the progress file: training that got on and then crashed at its old
// place is worth another round. That a round lasted does not break the row, for a program may need its time to reach
// the place where it always dies.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/system/number_text.hpp"

namespace ddprun::inline job {

// Exit codes as a shell reports them (128+n for signal n).
using CodeRange = NumberSpan;

// "2", "2,64-78": nothing for another form or for codes outside 1..255.
std::optional<std::vector<CodeRange>> parse_code_ranges(const std::string& text);

// "5s", "250ms", "2m", "1h" or a bare number of seconds; nothing for another form.
std::optional<std::chrono::milliseconds> parse_duration(const std::string& text);

struct RestartOptions {
    int max_restarts = 0;
    std::optional<std::vector<CodeRange>> restart_on;  // only these, if given
    std::vector<CodeRange> no_restart_on;              // never these
    std::chrono::milliseconds backoff_min{0};
    std::chrono::milliseconds backoff_max{0};
    std::chrono::milliseconds min_uptime{10'000};
    bool has_progress_file = false;
    int same_failure = 3;  // so many in a row end the job; 0: as many as there may be
};

class RestartPolicy {
  public:
    static constexpr int kMaxRestartsWithoutProgress = 3;

    explicit RestartPolicy(RestartOptions options) : options_(std::move(options)) {}

    // A result is what came of a round that failed.
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

    // Counts the restart if it is granted. `jitter` in [0, 1) spreads the delay over its upper half.
    Decision decide(const RoundResult& result, double jitter);

    // So many restarts were granted by another policy of the same job.
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
    int without_progress_ = 0;  // restarts in a row whose rounds came to nothing
};

}  // namespace ddprun::inline job

// A FailureJudge asks a program of the user's what shall follow a failure (--on-failure), without waiting for
// it.
//
// The program runs as the workers do, by their runner, between two rounds. The program leads its own session,
// has no descriptor of ours, and is gone when this launcher is. The question is a file that it has as stdin;
// its stderr is the launcher's. An answer counts when the program ends with 0 within the timeout. What is
// left of its process group then is killed.
//
// The agent makes, uses and destroys the judge on its thread, which `executor` runs; `runner` outlives the
// judge.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/agent/feature.hpp"
#include "launcher/process/process_runner.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/codec/description.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace launch {

// The question that a program of the user's is asked about a failure, and the answers that it may give. Pure.

struct FailureJudgeOptions {
    std::string program;  // --on-failure; empty: none
};

// FailureQuestion: the job and the round that failed.
struct FailureQuestion {
    std::string run_id;
    std::string job_id;
    int round = 0;
    int restarts = 0;
    int max_restarts = 0;
    int nodes = 1;  // of the round
};
BOOST_DESCRIBE_STRUCT(FailureQuestion, (), (run_id, job_id, round, restarts, max_restarts, nodes))

// Makes one object in one line: the members above, then those of the failure.
std::string to_json(const FailureQuestion& question, const Failure& failure);

// Reads `restart`, `stop` or `exclude NODE` as the first line of what the program has said, with any blanks
// between; nothing for another line. The round is the caller's to fill in.
std::optional<Judgement> parse_answer(std::string_view said);

class FailureJudge final : private WorkerObserver {
  public:
    // kOnFailureTimeout: how long the program may run.
    static constexpr std::chrono::seconds kOnFailureTimeout{10};
    // kMaxAnswer: bytes of the program's output that count as its answer; the rest is read and dropped.
    static constexpr std::size_t kMaxAnswer = 4096;

    struct Question {
        std::string program;
        std::string text;
        Environment environment;  // the whole environment
        int local_rank = 0;       // a number that no worker has
    };

    // Done gets the program's answer, or Answer::none and why, in words that follow the program's name.
    using Done = std::function<void(const Judgement& judgement, const std::string& trouble)>;

    FailureJudge(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                 std::chrono::milliseconds timeout = kOnFailureTimeout);
    ~FailureJudge() { stop(); }

    // Asks, and calls back once, from the executor. A question that is still open, of a program that even
    // SIGKILL does not end, is given up.
    void ask(const Question& question, Done done);

    // Kills the program that runs, if there is one, and calls back no more.
    void stop();

  private:
    std::optional<std::string> start(const Question& question);
    void listen();
    bool read_some();
    void worker_exited(pid_t program, const ExitStatus& status) override;
    void worker_group_gone(pid_t) override {}
    void answer(const Judgement& judgement, const std::string& trouble);

    ProcessRunner& runner_;
    std::chrono::milliseconds timeout_;
    boost::asio::posix::stream_descriptor output_;
    boost::asio::steady_timer timer_;
    Done done_;      // while a question is open
    pid_t pid_ = 0;  // of the program; 0: none runs
    bool overdue_ = false;
    std::string said_;
    Alive alive_;
};

// Makes the feature that lets the program of --on-failure answer, on the host, what shall follow a failure,
// as the coordinator asks. Where the program gives no usable answer, the user is told why.
std::unique_ptr<Feature> make_failure_judge(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun

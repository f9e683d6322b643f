// FailureInquiry: the coordinator asks what shall follow a failure, the program of --on-failure answers.
//
// Owned by the agent that hosts, on its thread; `options` and `log` outlive it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <string>
#include <utility>

#include "launcher/agent/job_terms.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/judge/failure_judge.hpp"
#include "launcher/output/launcher_log.hpp"

namespace ddprun::inline launch {

class FailureInquiry {
  public:
    FailureInquiry(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                   const LaunchOptions& options, LauncherLog& log)
        : options_(options), log_(log), judge_(executor, runner) {}

    // Calls back once, from the executor, also where the program says nothing of use; then its user reads why.
    void ask(const RoundReady& round, const JudgeFailure& asked,
             std::function<void(const Judgement&)> answer) {
        const auto said = [this, number = asked.round, answer = std::move(answer)](
                              Judgement judgement, const std::string& trouble) {
            if (!trouble.empty())
                log_.warn("--on-failure " + options_.on_failure + ": " + harmless_line(trouble) +
                          "; ddprun decides by itself");
            judgement.round = number;
            answer(judgement);
        };
        judge_.ask(question_of(options_, round, asked.failure), said);
    }

    void stop() { judge_.stop(); }

  private:
    const LaunchOptions& options_;
    LauncherLog& log_;
    FailureJudge judge_;
};

}  // namespace ddprun::inline launch

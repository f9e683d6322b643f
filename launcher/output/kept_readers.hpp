// KeptReaders: questions for a KeptOutput, and those that wait until there is more. Owned by PumpLoop and
// used by its thread; a loop without a question has neither timers nor work of it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "launcher/output/kept_output.hpp"

namespace ddprun {
inline namespace launch {

class KeptReaders {
  public:
    // kLongestWait: less than what a caller of the launcher's socket has (ServerLimits::kTimeout).
    static constexpr std::chrono::milliseconds kLongestWait{3'000};
    static constexpr std::size_t kMostAtOnce = 64 * 1024;
    using Done = std::function<void(KeptPiece)>;

    KeptReaders(boost::asio::io_context& context, const KeptOutput& kept) : context_(context), kept_(kept) {}

    // Calls `done` once, with what there is from the question's position on: before it returns, or later
    // where the question waits.
    void ask(const KeptQuestion& question, const Done& done);

    // Answers the questions for which something has come. Called after every handler that takes output.
    void look();

    // Answers all questions; none waits from now on. The workers' output is over.
    void finish();

  private:
    struct Waiting {
        Waiting(const KeptQuestion& asked, Done called, boost::asio::steady_timer limit)
            : question(asked), done(std::move(called)), timer(std::move(limit)) {}
        KeptQuestion question;
        Done done;
        boost::asio::steady_timer timer;
    };
    bool answer(const KeptQuestion& question, const Done& done, bool at_all_costs) const;

    boost::asio::io_context& context_;
    const KeptOutput& kept_;
    std::map<std::uint64_t, Waiting> waiting_;  // by number, in the order in which they came
    std::uint64_t last_ = 0;
    std::uint64_t seen_ = 0;  // kept_'s end when the questions were looked at last
    bool is_over_ = false;
};

}  // namespace launch
}  // namespace ddprun

// KeptReaders: questions for what is kept for clients (KeptOutput, Happenings), and those that wait until
// there is more. Used by the thread of the executor; without a question there are neither timers nor work.
#pragma once

#include <boost/asio/any_io_executor.hpp>
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
    // kLongestWait: what waits longer is answered with nothing, and asked again.
    static constexpr std::chrono::milliseconds kLongestWait{3'000};
    static constexpr std::size_t kMostAtOnce = 64 * 1024;
    using Done = std::function<void(KeptPiece)>;
    // Read: a piece of `most` bytes or a little more. End: the position behind all that has come.
    using Read = std::function<KeptPiece(const KeptQuestion&, std::size_t most)>;
    using End = std::function<std::uint64_t()>;

    KeptReaders(boost::asio::any_io_executor executor, Read read, End end)
        : executor_(std::move(executor)), read_(std::move(read)), end_(std::move(end)) {}

    // Calls `done` once, with what there is from the question's position on: before it returns, or later
    // where the question waits.
    void ask(const KeptQuestion& question, const Done& done);

    bool is_asked() const { return !waiting_.empty(); }

    // Answers the questions for which something has come. Called after every handler that takes some.
    void look();

    // Answers all questions; none waits from now on, since nothing more comes.
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

    boost::asio::any_io_executor executor_;
    Read read_;
    End end_;
    std::map<std::uint64_t, Waiting> waiting_;  // by number, in the order in which they came
    std::uint64_t last_ = 0;
    std::uint64_t seen_ = 0;  // the end when the questions were looked at last
    bool is_over_ = false;
};

}  // namespace launch
}  // namespace ddprun

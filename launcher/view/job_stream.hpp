// JobStream is what one client of a launcher reads of the nodes of a job: what their workers have printed, or
// what has happened there. Pure, but for the functions that it is given.
//
// A node is asked (KeptQuestion), answers with a piece, and is asked on when the client has taken all that
// has come: the asking is the flow control, so that neither a client that stands still nor a node that says
// much makes anything grow. What a node has dropped before it was asked on is told in the place of the lines.
// For one thread; a stream is held by its reader, and what is on its way to it finds nothing when that has
// let go.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/kept_output.hpp"
#include "launcher/view/gathered_answers.hpp"
#include "launcher/view/routes.hpp"

namespace ddprun {
inline namespace launch {

// HeardPiece: what a node has said to a KeptQuestion; no piece: nothing that can be understood.
struct HeardPiece {
    NodeAnswer from;  // without its text
    std::optional<KeptPiece> piece;
    bool is_believed = false;  // this launcher says it itself
};

class JobStream final : public ViewStream, public std::enable_shared_from_this<JobStream> {
  public:
    // Ask: asks this node, or with kTheRank the one that has the rank of the terms; `hear` is called once, at
    // once or later. Later: calls a function so much later.
    using Ask = std::function<void(int node, const KeptQuestion&, std::function<void(HeardPiece)> hear)>;
    using Later = std::function<void(std::chrono::milliseconds, std::function<void()>)>;

    static constexpr int kTheRank = -1;
    // kMostAsked: nodes that are asked at one time for what there was before.
    static constexpr int kMostAsked = 16;
    // kMostQueued: what has come beyond is thrown away, and its node asked for it again.
    static constexpr std::size_t kMostQueued = std::size_t{4} << 20;
    // kTroublePause: after which a node that has given no answer is asked again. kEmptyPause: the same for
    // one that had nothing to say, though it might have waited for more.
    static constexpr std::chrono::milliseconds kTroublePause{2'000};
    static constexpr std::chrono::milliseconds kEmptyPause{50};

    JobStream(StreamTerms terms, Ask ask, Later later)
        : terms_(std::move(terms)), ask_(std::move(ask)), later_(std::move(later)) {}

    const StreamTerms& terms() const { return terms_; }

    // Reads these nodes from now on, and no other ones.
    void read(const std::vector<int>& nodes);
    // Tells the client something of the job as a whole.
    void tell(const StreamLine& line);
    // Tells the client so, and says no more.
    void end(const StreamLine& last);

    std::string take() override;
    bool is_over() const override { return is_over_; }
    void await(std::function<void()> more) override { more_ = std::move(more); }
    void close() override;

  private:
    enum class Doing { nothing, asked, pausing };
    struct Source {
        std::uint64_t number = 0;  // another one at the same place has another
        Doing doing = Doing::nothing;
        std::uint64_t next = 0;
        std::string launcher;
        std::string host;
        std::string log_folder;
        std::string trouble;
        std::size_t told = 0;  // bytes
        // next_of: by rank, how many of its bytes have come by the count of `launcher`, or were dropped
        // there.
        std::map<int, std::uint64_t> next_of;
        bool has_caught_up = false;
    };
    void ask_on();
    void ask(int node, Source& source);
    void hear(int node, std::uint64_t number, HeardPiece heard);
    void take_piece(Source& source, const NodeAnswer& from, KeptPiece piece);
    static std::vector<KeptBlock> with_gaps(Source& source, const KeptPiece& piece);
    void take_trouble(Source& source, const NodeAnswer& from, const std::string& why);
    void pause(int node, std::chrono::milliseconds length);
    void look_whether_caught_up();
    void wake();
    bool may_tell(const NodeAnswer& from, const KeptBlock& block) const;

    const StreamTerms terms_;
    const Ask ask_;
    const Later later_;
    std::map<int, Source> sources_;  // by node, or kTheRank
    std::uint64_t last_number_ = 0;
    std::string queue_;  // what the client has yet to take
    std::function<void()> more_;
    bool has_caught_up_ = false;
    bool is_over_ = false;
};

}  // namespace launch
}  // namespace ddprun

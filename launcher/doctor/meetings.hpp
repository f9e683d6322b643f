// Meetings: this node's part in the tournament (tournament.hpp): it calls the others and is called by them, one in each
// round, and measures the way between. Strangers are hung up on.
//
// Owned and used on one thread, which it blocks for a round at most; between rounds nothing is answered, but callers wait.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/doctor/meeting_talk.hpp"
#include "launcher/doctor/node_word.hpp"
#include "launcher/doctor/tournament.hpp"

namespace ddprun::inline launch {

// So many callers at one time, strangers included.
inline constexpr int kMaxCallers = 64;
// Nodes that are called in one go in look_again(); of more, these.
inline constexpr std::size_t kMaxCalledAgain = 256;

class Meetings {
  public:
    // Listens at a free port of all addresses. Throws where that cannot be.
    Meetings();
    ~Meetings();
    Meetings(const Meetings&) = delete;
    Meetings& operator=(const Meetings&) = delete;

    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

    // What callers have to say, and this node says; before the first round.
    void begin(std::string token, int rank);

    // Calls `partner`, and is called by it. The one with the lower rank measures the bytes, both ways.
    PairReach meet(int round, const MeetingNode& partner, const MeetingLimits& limits);

    // Calls all of these, and is called by anybody, for as long as `limit`; measures no bytes.
    std::vector<PairReach> look_again(int round, const std::vector<MeetingNode>& targets,
                                      std::chrono::milliseconds limit);

  private:
    // Shared by what goes on in it: a caller may outlive it by a little.
    struct Round;
    using Socket = boost::asio::ip::tcp::socket;

    boost::asio::awaitable<void> serve(Socket socket);
    boost::asio::awaitable<void> answer(Socket& socket, std::shared_ptr<Round> round);
    boost::asio::awaitable<void> call(std::shared_ptr<Round> round, MeetingNode target, bool measures,
                                      PairReach& result);
    boost::asio::awaitable<void> talk(Socket& socket, std::shared_ptr<Round> round, bool measures,
                                      PairReach& result);
    boost::asio::awaitable<void> play(std::shared_ptr<Round> round, MeetingNode partner, PairReach& result);
    boost::asio::awaitable<void> be_called(std::shared_ptr<Round> round);
    void run(boost::asio::awaitable<void> part);

    boost::asio::io_context context_{1};
    boost::asio::ip::tcp::acceptor acceptor_;
    std::string token_;
    int rank_ = 0;
    int callers_ = 0;
    std::shared_ptr<Round> round_;
};

}  // namespace ddprun::inline launch

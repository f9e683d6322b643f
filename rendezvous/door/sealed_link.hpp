// SealedLink is a connection between two ends that have proven the job's key. What was put into it in one
// turn of the executor goes out together, as few records and system calls.
//
// Owned by its maker, shared with what it waits for; used on its executor's one thread. What waits to be sent
// is bounded by its owner, by has_room(); answers that are not read end the link.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/secure/sealed_records.hpp"

namespace ddprun {
inline namespace job {

struct SealedLinkEvents {
    // on_text takes what the other side has sent; false: the text is not allowed, and the link ends.
    std::function<bool(std::string_view plain)> on_text;
    // on_room tells that there is room again, after has_room() had returned false.
    std::function<void()> on_room;
    // on_over tells that the connection is over; the last call, and none after close(). `why`: what the other
    // side has done; empty: it is gone.
    std::function<void(std::string_view why)> on_over;
};

class SealedLink : public std::enable_shared_from_this<SealedLink> {
  public:
    // kHighWater: bytes that wait to be sent; with as many there is no room.
    static constexpr std::size_t kHighWater = std::size_t{1} << 20;
    // kMostWaiting: bytes at which the link ends while its socket takes none. Answers to frames are given
    // without room, too.
    static constexpr std::size_t kMostWaiting = 4 * kHighWater;
    // kSilence: the time in which a machine that is gone is noticed, even when nothing is said.
    static constexpr std::chrono::seconds kSilence{15};
    // kStuckTimeout: the link ends if its other end takes nothing of what waits for this long.
    static constexpr std::chrono::seconds kStuckTimeout{60};

    // SealedLink takes over the socket. `heard` is what the other side has sent in records that were opened
    // before.
    SealedLink(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
               SealedLinkEvents events);

    // Begins to serve; called once. Events follow after this call has returned.
    void start();

    // Returns the text to append to; its bytes are sent soon.
    std::string& text();
    bool has_room();

    // Ends the connection without a word. No event follows.
    void close();

  private:
    void wait();
    void read_some();
    std::size_t waiting() const { return plain_.size() + sealed_.size() - sent_; }
    void flush();
    bool send_some();
    void wait_to_send();
    void end(std::string_view why = {});

    boost::asio::ip::tcp::socket socket_;
    SealedRecords records_;
    std::string heard_;
    SealedLinkEvents events_;
    std::string plain_;   // to be sealed with the next batch
    std::string sealed_;  // sealed bytes, of which `sent_` are sent
    std::size_t sent_ = 0;
    boost::asio::steady_timer stuck_;
    bool is_due_ = false;      // flush() will be called
    bool is_blocked_ = false;  // the socket takes no more for now
    bool is_missed_ = false;   // has_room() has returned false
};

}  // namespace job
}  // namespace ddprun

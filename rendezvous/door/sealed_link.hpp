// SealedLink: a connection whose two ends have proven the job's key, and over which both send whatever they have, in
// batches: what was put into it in one turn of the executor goes out together, as few records and system calls.
//
// Owned by who made it, shared with what it waits for; used on its executor's one thread. What it holds to be sent is
// bounded by its owner, who looks at has_room().
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

namespace ddprun::inline job {

struct SealedLinkEvents {
    // What the other side has sent; false: it should not have, and the link ends.
    std::function<bool(std::string_view plain)> on_text;
    // There is room again, after has_room() had said that there is none.
    std::function<void()> on_room;
    // The connection is over; not after close(). The last call.
    std::function<void()> on_over;
};

class SealedLink : public std::enable_shared_from_this<SealedLink> {
  public:
    // Bytes that wait to be sent; with so many there is no room.
    static constexpr std::size_t kHighWater = std::size_t{1} << 20;
    // A machine that has gone without a word is noticed in this time, also while nothing is said.
    static constexpr std::chrono::seconds kSilence{15};
    // A link whose other end takes nothing of what waits for so long is over.
    static constexpr std::chrono::seconds kStuckTimeout{60};

    // `heard`: what the other side has sent in records that were opened before.
    SealedLink(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
               SealedLinkEvents events);

    // Once. Events follow when this call is over.
    void start();

    // What is appended to this is sent soon.
    std::string& text();
    bool has_room();

    // Without a word. No event follows.
    void close();

  private:
    void wait();
    void read_some();
    std::size_t waiting() const { return plain_.size() + sealed_.size() - sent_; }
    void flush();
    bool send_some();
    void wait_to_send();
    void end();

    boost::asio::ip::tcp::socket socket_;
    SealedRecords records_;
    std::string heard_;
    SealedLinkEvents events_;
    std::string plain_;   // to be sealed with the next batch
    std::string sealed_;  // of these, `sent_` have gone
    std::size_t sent_ = 0;
    boost::asio::steady_timer stuck_;
    bool is_due_ = false;      // flush() will be called
    bool is_blocked_ = false;  // the socket takes no more for now
    bool is_missed_ = false;   // room, by who asked for it
};

}  // namespace ddprun::inline job

// An agent's door and node 0 say to each other what many clients of the store say and hear: they share one
// sealed connection, the SealedLink, as frames.
//
//   frame  = u8 kind | u32 channel | u32 count, little endian [| that many bytes: of a `data`]
//
//   open     a client has come; from the door only, the numbers of channels rise by one from 1 on
//   data     bytes of the client, or for it
//   credit   so many bytes more may be sent on the channel; each side begins with kDoorWindow
//   close    the client is gone, or the store has ended the conversation; the last frame of the channel from
//            there
//
// Each side takes all that the other one had credit for, so neither ever leaves the connection unread, and a
// client that takes nothing holds up nobody else. A frame of a channel that has been closed here is passed
// over: the other side did not know that yet. The frames are pure.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/secure/sealed_connection.hpp"
#include "rendezvous/store/store_service.hpp"

namespace ddprun {
inline namespace job {

enum class DoorFrameKind : std::uint8_t { open = 0, data = 1, credit = 2, close = 3 };

// So many bytes one side may send on a channel before the other one has said that they were taken.
inline constexpr std::size_t kDoorWindow = std::size_t{256} << 10;
// They are given back when there are so many.
inline constexpr std::size_t kDoorCreditStep = kDoorWindow / 2;
// One `data` has no more; what is longer is cut into several, so that others' bytes come in between.
inline constexpr std::size_t kMaxDoorData = std::size_t{64} << 10;

struct DoorFrame {
    DoorFrameKind kind = DoorFrameKind::open;
    std::uint32_t channel = 0;
    std::uint32_t count = 0;  // of bytes; 0 for open and close
    std::string_view data;    // of a `data`
};

// Appends the frame. put_door_data() wants at most kMaxDoorData bytes.
void put_door_frame(std::string& out, DoorFrameKind kind, std::uint32_t channel, std::uint32_t count = 0);
void put_door_data(std::string& out, std::uint32_t channel, std::string_view data);

// DoorFrames takes what has been unsealed apart, however it was cut.
class DoorFrames {
  public:
    enum class Status { ready, incomplete, malformed };

    // Each whole frame in these bytes, behind those before, is taken, until one is refused. False: that, or
    // one is none.
    bool take(std::string_view bytes, const std::function<bool(const DoorFrame&)>& take_frame);
    // Bytes that come behind those before. Valid until the next call: they are looked at where they are.
    void feed(std::string_view bytes);
    // Its data is valid until the next call of feed(). After `incomplete` feed() must follow; `malformed`
    // stays.
    Status next(DoorFrame& frame);

  private:
    std::string unfinished_;  // of the frame that feed() has begun
    std::string joined_;
    std::string_view left_;
};

struct SealedLinkEvents {
    // Takes what the other side has sent; false: it should not have, and the link ends.
    std::function<bool(std::string_view plain)> on_text;
    // There is room again, after has_room() had said that there is none.
    std::function<void()> on_room;
    // The connection is over; not after close(). The last call. `why`: what the other side has done; empty:
    // it is gone.
    std::function<void(std::string_view why)> on_over;
};

// SealedLink is a connection whose two ends have proven the job's key, and over which both send whatever they
// have, in batches: what was put into it in one turn of the executor goes out together, as few records and
// system calls.
//
// Owned by who made it, shared with what it waits for; used on its executor's one thread. What it holds to be
// sent is bounded by its owner, who looks at has_room(); answers that nobody reads end it.
class SealedLink : public std::enable_shared_from_this<SealedLink> {
  public:
    // Bytes that wait to be sent; with so many there is no room.
    static constexpr std::size_t kHighWater = std::size_t{1} << 20;
    // The link ends where so many wait for one that takes none: answers to frames are given with or without
    // room.
    static constexpr std::size_t kMostWaiting = 4 * kHighWater;
    // A machine that has gone without a word is noticed in this time, also while nothing is said.
    static constexpr std::chrono::seconds kSilence{15};
    // A link whose other end takes nothing of what waits for so long is over.
    static constexpr std::chrono::seconds kStuckTimeout{60};

    // `heard`: what the other side has sent in records that were opened before.
    SealedLink(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
               SealedLinkEvents events);

    // Begins to serve, once. Events follow when this call is over.
    void start();

    // Gives the text whose bytes are sent soon; what is to be sent is appended to it.
    std::string& text();
    bool has_room();

    // Ends it without a word. No event follows.
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
    std::string sealed_;  // of these, `sent_` have gone
    std::size_t sent_ = 0;
    boost::asio::steady_timer stuck_;
    bool is_due_ = false;      // flush() will be called
    bool is_blocked_ = false;  // the socket takes no more for now
    bool is_missed_ = false;   // room, by who asked for it
};

// DoorHost is node 0's end of what one agent's door has to say: each channel is a client of the store.
//
// Owned by PortService, on its thread; the store outlives it.

class DoorHost {
  public:
    // `heard`: what the door has said already. on_over: as a link's; this object may be destroyed in it.
    DoorHost(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
             StoreService& store, std::function<void(std::string_view why)> on_over);
    // All its clients are gone.
    ~DoorHost();
    DoorHost(const DoorHost&) = delete;
    DoorHost& operator=(const DoorHost&) = delete;

  private:
    class Channel;

    bool take(const DoorFrame& frame);
    bool open(std::uint32_t number);
    void has_room();

    StoreService& store_;
    std::shared_ptr<SealedLink> link_;
    DoorFrames frames_;
    std::unordered_map<std::uint32_t, std::shared_ptr<Channel>> channels_;
    std::vector<std::uint32_t> waiting_;  // channels whose clients' replies wait for room in the link
    std::uint32_t last_channel_ = 0;
    std::function<void(std::string_view)> on_over_;
};

}  // namespace job
}  // namespace ddprun

// SealedLink is the one connection on which an agent's door and node 0 say, as frames, what many clients of
// the store say and hear.
//
//   frame  = u8 kind | u32 channel | u32 count, little endian [| that many bytes: of a `data`]
//
//   open     a client has come; from the door only, the numbers of channels rise by one from 1 on
//   data     bytes of the client, or for it
//   credit   count bytes more may be sent on the channel; each side begins with kDoorWindow
//   close    the client is gone, or the store has ended the conversation; the sender's last of the channel
//
// Each side takes all that the other one had credit for, so neither ever leaves the connection unread, and a
// client that takes nothing holds up no other. A frame of a channel that has been closed here is ignored: the
// other side did not know that yet. The frames are pure.
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

#include "rendezvous/secure/sealed_records.hpp"
#include "rendezvous/store/store_service.hpp"

namespace ddprun {
inline namespace job {

enum class DoorFrameKind : std::uint8_t { open = 0, data = 1, credit = 2, close = 3 };

// kDoorWindow: bytes that one side may send on a channel before the other side has acknowledged them.
inline constexpr std::size_t kDoorWindow = std::size_t{256} << 10;
// kDoorCreditStep: the taken bytes from which credit for them is given back.
inline constexpr std::size_t kDoorCreditStep = kDoorWindow / 2;
// kMaxDoorData: bytes of one `data` at most; longer ones are cut, so that other channels' bytes come in
// between.
inline constexpr std::size_t kMaxDoorData = std::size_t{64} << 10;

struct DoorFrame {
    DoorFrameKind kind = DoorFrameKind::open;
    std::uint32_t channel = 0;
    std::uint32_t count = 0;  // of bytes; 0 for open and close
    std::string_view data;    // of a `data`
};

// Appends the frame. put_door_data() accepts at most kMaxDoorData bytes.
void put_door_frame(std::string& out, DoorFrameKind kind, std::uint32_t channel, std::uint32_t count = 0);
void put_door_data(std::string& out, std::uint32_t channel, std::string_view data);

// DoorFrames splits unsealed bytes into frames, however they were cut.
class DoorFrames {
  public:
    enum class Status { ready, incomplete, malformed };

    // Calls `take_frame` for each whole frame in these bytes, behind those before. Returns false if
    // `take_frame` did, or if a frame is malformed.
    bool take(std::string_view bytes, const std::function<bool(const DoorFrame&)>& take_frame);
    // Takes bytes that come behind those before. next() reads them in place: they are valid until the next
    // call of feed().
    void feed(std::string_view bytes);
    // Reads a frame; its data is valid until the next call of feed(). After `incomplete` feed() must follow;
    // `malformed` stays.
    Status next(DoorFrame& frame);

  private:
    std::string unfinished_;  // of the frame that feed() has begun
    std::string joined_;
    std::string_view left_;
};

struct SealedLinkEvents {
    // on_text takes what the other side has sent; false: the text is not allowed, and the link ends.
    std::function<bool(std::string_view plain)> on_text;
    // on_room tells that there is room again, after has_room() had returned false.
    std::function<void()> on_room;
    // on_over tells that the connection is over; the last call, and none after close(). `why`: what the other
    // side has done; empty: it is gone.
    std::function<void(std::string_view why)> on_over;
};

// SealedLink is a connection between two ends that have proven the job's key. What was put into it in one
// turn of the executor goes out together, as few records and system calls.
//
// Owned by its maker, shared with what it waits for; used on its executor's one thread. What waits to be sent
// is bounded by its owner, by has_room(); answers that are not read end the link.
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

// DoorHost is node 0's end of one agent's door: each channel is a client of the store.
//
// Owned by PortService, on its thread; the store outlives it.
class DoorHost {
  public:
    // DoorHost takes over the connection. `heard` is what the door has said already. `on_over` is
    // SealedLinkEvents::on_over; this object may be destroyed in it.
    DoorHost(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
             StoreService& store, std::function<void(std::string_view why)> on_over);
    // Ends all clients of the door.
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
    std::vector<std::uint32_t> waiting_;  // channels with replies that wait for room in the link
    std::uint32_t last_channel_ = 0;
    std::function<void(std::string_view)> on_over_;
};

}  // namespace job
}  // namespace ddprun

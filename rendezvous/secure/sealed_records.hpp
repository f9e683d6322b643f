// SealedRecords: what flows over a connection once both sides have proven that they have the job's key. Pure; used on the
// connection's thread by who owns that.
//
// Each side sends records, which are numbered by nothing but their order:
//
//     u16 length, little endian, 16..65535 | that many bytes: text and tag, ChaCha20-Poly1305
//
// A record that was changed, left out, repeated or moved ends the connection: there is no way back.
#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "rendezvous/secure/noise_nnpsk0.hpp"

namespace ddprun::inline job {

inline constexpr std::size_t kMaxSealedRecord = 65'535;
inline constexpr std::size_t kMaxRecordText = kMaxSealedRecord - kNoiseTagBytes;
inline constexpr std::size_t kRecordHeaderBytes = 2;

class SealedRecords {
  public:
    explicit SealedRecords(const NoiseKeys& keys) : send_(keys.send), receive_(keys.receive) {}

    // As many records as the text needs; none for none.
    std::string seal(std::string_view plain);

    // What is whole of the bytes that have arrived; the rest, one record at most, is kept for the next call. An error
    // (Errc::protocol_violation) stays one.
    boost::system::result<std::string> open(std::string_view bytes);

    // Held of a record that has not arrived as a whole: nothing between two.
    std::size_t buffered() const { return unfinished_.capacity() > kInPlace ? unfinished_.capacity() : 0; }

  private:
    static constexpr std::size_t kInPlace = 15;  // a short text takes no memory of its own

    NoiseCipher send_;
    NoiseCipher receive_;
    std::string unfinished_;
    bool is_broken_ = false;
};

}  // namespace ddprun::inline job

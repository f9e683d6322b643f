// SealedRecords seals and opens what flows once both sides have proven their key. The records are numbered by
// their order alone; each is a text and its tag, ChaCha20-Poly1305. A record that was changed, left out,
// repeated or moved ends the connection: there is no way back. Used by the connection's owner, on its thread.
#pragma once

#include <boost/system/result.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include "rendezvous/secure/noise_cipher.hpp"
#include "rendezvous/secure/noise_handshake.hpp"

namespace ddprun {
inline namespace job {

inline constexpr std::size_t kMaxSealedRecord = 65'535;
inline constexpr std::size_t kMaxRecordText = kMaxSealedRecord - kNoiseTagBytes;
inline constexpr std::size_t kRecordHeaderBytes = 2;

class SealedRecords {
  public:
    explicit SealedRecords(const NoiseKeys& keys) : send_(keys.send), receive_(keys.receive) {}

    // Seals the text in as many records as it needs.
    std::string seal(std::string_view plain);

    // Opens what is whole of the bytes that have arrived; the rest, one record at most, is kept for the next
    // call. After an error (Errc::protocol_violation) every call fails with it.
    boost::system::result<std::string> open(std::string_view bytes);

    // Counts the memory for a record that has not arrived as a whole; 0 between two records.
    std::size_t buffered() const { return unfinished_.capacity() > kInPlace ? unfinished_.capacity() : 0; }

  private:
    static constexpr std::size_t kInPlace = 15;  // a short text takes no memory of its own

    NoiseCipher send_;
    NoiseCipher receive_;
    std::string unfinished_;
    bool is_broken_ = false;
};

}  // namespace job
}  // namespace ddprun

// A kept context's owner outside the engine thread: when the last one goes, so do the pages.
#pragma once

#include <memory>

#include "run/engine/inbox.h"

namespace kvern::engine {

class KeptHandle {
 public:
  KeptHandle(kv::SeqId seq, std::shared_ptr<Inbox> inbox) : seq_(seq), inbox_(std::move(inbox)) {}
  ~KeptHandle() { inbox_->drop_context(seq_); }
  KeptHandle(const KeptHandle&) = delete;
  KeptHandle& operator=(const KeptHandle&) = delete;
  kv::SeqId seq() const { return seq_; }
  bool belongs_to(const Inbox& inbox) const { return inbox_.get() == &inbox; }

 private:
  const kv::SeqId seq_;
  const std::shared_ptr<Inbox> inbox_;
};

}  // namespace kvern::engine

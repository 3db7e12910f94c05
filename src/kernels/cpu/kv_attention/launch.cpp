// Attention in blocks of rows against staged splits. Tasks are tiles of tokens times KV heads, so
// that the query heads of a group and the tokens of a tile share each load of K and V; a launch
// with fewer tasks than threads can use is cut along the context too. Neither changes a bit:
// splits are fixed and combined in ascending order.
//
// Reads kv_heads * (K + V bytes) per position and tile: bandwidth-bound in decode, where a tile is
// one token; compute-bound in prefill (per row and position dim_k / 32 dot products and dim_v / 16
// FMAs).
#include "kernels/cpu/kv_attention/launch.h"

#include "kernels/cpu/kv_attention/task.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace {

// A launch and its tasks in a fixed order: task = tile * kv_heads + KV head.
struct Launch {
  const KvAttentionDesc& desc;
  const KvAttentionArgs& args;
  TaskShape shape;
  std::vector<QueryTile> tiles;

  Launch(const KvAttentionDesc& d, const KvAttentionArgs& a, const Isa& isa, QkInput input)
      : desc(d),
        args(a),
        shape(d, isa, input),
        tiles(cut_tiles(d, *a.step, static_cast<int32_t>(shape.tile_tokens()))) {}

  int64_t num_tasks() const { return static_cast<int64_t>(tiles.size()) * desc.kv_heads; }
  Task task(int64_t index, float* memory) const {
    return {desc,
            shape,
            args,
            tiles[static_cast<size_t>(index / desc.kv_heads)],
            index % desc.kv_heads,
            memory};
  }
  int64_t first_split(const QueryTile& tile) const {
    return first_visible(desc, tile.position) / kSplitTokens;
  }
  int64_t num_splits(const QueryTile& tile) const {
    const int64_t end = tile.position + tile.tokens;
    return (end + kSplitTokens - 1) / kSplitTokens - first_split(tile);
  }
  int64_t total_splits() const {
    int64_t total = 0;
    for (const QueryTile& tile : tiles) total += num_splits(tile);
    return total * desc.kv_heads;
  }
  // A rough time on one thread, from the bench: staging a position takes about 5 ns, a row 2 ns.
  int64_t estimate_ns() const {
    int64_t ns = 0;
    for (const QueryTile& tile : tiles) {
      const int64_t rows = tile.tokens * shape.group;
      ns += num_splits(tile) * kSplitTokens * (5 + 2 * rows);
    }
    return ns * desc.kv_heads * (desc.dim_k + desc.dim_v) / 128;
  }
};

// Work along the context: runs of a task's splits, each split's rows kept apart until all are
// there.
class SplitLaunch {
 public:
  SplitLaunch(const Launch& launch, int num_threads) : launch_(launch) {
    // Eight runs for each thread balance well enough; longer runs read ahead better.
    const int64_t run = std::clamp<int64_t>(launch.total_splits() / (8 * num_threads), 1, 8);
    for (int64_t task = 0; task < launch.num_tasks(); ++task) {
      const QueryTile& tile = launch.tiles[static_cast<size_t>(task / launch.desc.kv_heads)];
      const int64_t rows = tile.tokens * launch.shape.group;
      const int64_t first = launch.first_split(tile);
      const int64_t end = first + launch.num_splits(tile);
      for (int64_t split = first; split < end; split += run) {
        const int64_t count = std::min(run, end - split);
        pieces_.push_back({task, split, count, num_rows_, rows});
        num_rows_ += rows * count;
      }
    }
  }

  int64_t num_floats() const {
    return (2 * num_rows_ + 15) / 16 * 16 + num_rows_ * launch_.shape.padded_v;
  }

  // partials: num_floats(); memory: thread_floats() for each thread.
  void run(ThreadPool& pool, float* partials, float* memory) {
    totals_ = reinterpret_cast<RowTotal*>(partials);
    out_ = partials + (2 * num_rows_ + 15) / 16 * 16;
    std::fill_n(totals_, num_rows_, RowTotal{});
    const int64_t thread_floats = launch_.shape.thread_floats();
    pool.parallel_for(static_cast<int64_t>(pieces_.size()), [&](int64_t index, int thread) {
      const Piece& piece = pieces_[static_cast<size_t>(index)];
      Task task = launch_.task(piece.task, memory + thread * thread_floats);
      for (int64_t i = 0; i < piece.num_splits; ++i) {
        const int64_t first = piece.first_row + i * piece.rows;
        task.run_split(piece.split + i,
                       [&](int64_t row, const RowTotal& part, const float* part_out) {
                         totals_[first + row] = part;
                         std::copy_n(part_out, launch_.shape.padded_v, out(first + row));
                       });
      }
    });
    combine(memory);
  }

 private:
  struct Piece {
    int64_t task;
    int64_t split;  // the first of num_splits
    int64_t num_splits;
    int64_t first_row;  // of the partials: [num_splits, rows]
    int64_t rows;
  };

  float* out(int64_t row) const { return out_ + row * launch_.shape.padded_v; }

  // Folds each row's splits, in ascending order, into those of its task's first split. The
  // partials of a task's pieces follow each other.
  void combine(float* memory) const {
    for (size_t i = 0; i < pieces_.size();) {
      const Piece& first = pieces_[i];
      int64_t num_splits = 0;
      for (; i < pieces_.size() && pieces_[i].task == first.task; ++i) {
        num_splits += pieces_[i].num_splits;
      }
      const Task task = launch_.task(first.task, memory);
      for (int64_t row = first.first_row; row < first.first_row + first.rows; ++row) {
        for (int64_t split = 1; split < num_splits; ++split) {
          const int64_t part = row + split * first.rows;
          launch_.shape.isa.combine_row(totals_[row], out(row), totals_[part], out(part),
                                        launch_.shape.padded_v);
        }
        task.finish(row - first.first_row, totals_[row], out(row));
      }
    }
  }

  const Launch& launch_;
  std::vector<Piece> pieces_;
  int64_t num_rows_ = 0;
  RowTotal* totals_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace

void launch_attention(const KvAttentionDesc& desc, const KvAttentionArgs& args, const Isa& isa,
                      QkInput input) {
  constexpr int64_t kSerialNs = 15'000;
  constexpr int64_t kMaxPartialFloats = int64_t{4} << 20;
  const Launch launch(desc, args, isa, input);
  device::CpuStream& stream = cpu_stream(args.stream);
  ThreadPool& pool = stream.pool();
  const int64_t thread_floats = launch.shape.thread_floats();
  const auto scratch = [&](int64_t floats) {
    return reinterpret_cast<float*>(stream.scratch(static_cast<size_t>(floats) * sizeof(float)));
  };
  if (pool.num_threads() == 1 || launch.estimate_ns() < kSerialNs) {
    float* memory = scratch(thread_floats);
    for (int64_t task = 0; task < launch.num_tasks(); ++task) launch.task(task, memory).run_all();
    return;
  }
  const int64_t all_threads = thread_floats * pool.num_threads();
  if (launch.num_tasks() < 4 * pool.num_threads()) {
    SplitLaunch splits(launch, pool.num_threads());
    if (splits.num_floats() <= kMaxPartialFloats) {
      float* memory = scratch(all_threads + splits.num_floats());
      splits.run(pool, memory + all_threads, memory);
      return;
    }
  }
  float* memory = scratch(all_threads);
  pool.parallel_for(launch.num_tasks(), [&](int64_t task, int thread) {
    launch.task(task, memory + thread * thread_floats).run_all();
  });
}

}  // namespace kvern::kernels::cpu
